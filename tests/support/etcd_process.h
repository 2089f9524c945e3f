// A real etcd in a process of its own, on loopback, with a data directory that ends with it.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace remora {

/// Returns a TCP port of loopback that nobody listens at, and that the system gives to no client.
int FreePort();

/// One etcd, as a cluster of its own. It ends with this object.
class EtcdProcess {
 public:
  /// Files of TLS for its clients; empty: it serves http.
  struct Tls {
    std::string cert{};
    std::string key{};
  };
  /// Starts it, and waits until it listens.
  EtcdProcess() : EtcdProcess(Tls()) {}
  explicit EtcdProcess(Tls tls);
  ~EtcdProcess();
  EtcdProcess(const EtcdProcess&) = delete;
  EtcdProcess& operator=(const EtcdProcess&) = delete;

  /// Returns where it serves its clients: http://127.0.0.1:PORT.
  const std::string& endpoint() const { return endpoint_; }
  /// Ends it by SIGKILL. Its data stay.
  void Kill();
  /// Starts it again, with its data and at its address.
  void Start();
  /// Sends it a signal. SIGSTOP: returns once all of its threads have stopped.
  void Signal(int number) const;
  /// Runs etcdctl with these arguments. Returns its exit status.
  int Control(const std::string& arguments) const;

 private:
  bool IsListening() const;

  const Tls tls_;
  std::string folder_;
  std::string endpoint_;
  int port_ = 0;
  std::vector<std::string> arguments_;
  pid_t pid_ = -1;
};

}  // namespace remora

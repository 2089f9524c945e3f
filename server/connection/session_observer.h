// A part of the server that keeps something of its clients.
#pragma once

namespace remora {

class ClientSession;

/// Interface of a part that learns when a session ends.
///
/// Thread safety: none; the server's one thread.
class SessionObserver {
 public:
  SessionObserver() = default;
  SessionObserver(const SessionObserver&) = delete;
  SessionObserver& operator=(const SessionObserver&) = delete;

  /// Gives up what it keeps of the session, which ends, and of its connection. It drops no session.
  virtual void Forget(ClientSession& session) = 0;

 protected:
  ~SessionObserver() = default;
};

}  // namespace remora

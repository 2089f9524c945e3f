// The settings, and their change by SIGHUP: the file of --config is read anew. Keys that can change while the
// server serves take effect; the log names the others, which need a restart. A file with any fault changes
// nothing.
#pragma once

#include "server/main/flags.h"
#include "server/main/server_log.h"
#include "server/main/settings.h"
#include "server/server.h"

namespace remora {

/// Reads the configuration file anew, and applies the settings that may change.
///
/// Thread safety: none; the server's one thread, once it serves, or the main thread of --shards.
class ConfigReload {
 public:
  /// `flags`: as these arguments were read at the start. The arguments and the log outlive this.
  ConfigReload(int argc, char** argv, const Flags& flags, ServerLog& log);
  ConfigReload(const ConfigReload&) = delete;
  ConfigReload& operator=(const ConfigReload&) = delete;

  /// Changes the settings of this server, too, from now on; it outlives all further calls of Reload.
  void Serve(Server* server) { server_ = server; }
  /// Reads the file anew. REQUIRES: the command line has --config.
  void Reload();
  /// The settings in force.
  Settings& settings() { return settings_; }

 private:
  void TakeEffect(const Flags& fresh);

  const int argc_;
  char** const argv_;
  ServerLog& log_;
  const bool has_first_process_;  // of --shards, whose server this is
  Server* server_ = nullptr;      // null: there is none yet
  Settings settings_;
};

}  // namespace remora

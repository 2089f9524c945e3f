// A request to stop: SIGINT, SIGTERM or SIGHUP.
#pragma once

namespace remora::kvctl {

/// From here on, the first such signal asks the command to stop where it can go on later. The second one ends
/// the process as always. There is one of it at a time.
class Interruption {
 public:
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  bool came() const;
};

}  // namespace remora::kvctl

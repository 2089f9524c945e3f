// The first program. It needs a server:  kvserver --listen=local:///tmp/remora.sock --durability=memory
#include <remora/client.h>

#include <iostream>

int main(int argc, char** argv) {
  const char* address = argc > 1 ? argv[1] : "local:///tmp/remora.sock";

  auto client = remora::Client::Connect(address);
  if (!client.ok()) {
    std::cerr << client.status() << '\n';
    return 1;
  }
  // One round trip: when it returns, every client of this server sees the value.
  if (absl::Status status = (*client)->Put("greeting", "hello, world"); !status.ok()) {
    std::cerr << status << '\n';
    return 1;
  }
  // Read in place, out of the server's memory. The server does not even wake up.
  absl::StatusOr<std::string> value = (*client)->Get("greeting");
  if (!value.ok()) {
    std::cerr << value.status() << '\n';
    return 1;
  }
  std::cout << *value << '\n';
}

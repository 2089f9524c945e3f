// The store inside one program, with no server: counts how often this program was run.
//   example_embedded DIRECTORY
#include <remora/store.h>

#include <cstddef>
#include <iostream>
#include <string>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: example_embedded DIRECTORY\n";
    return 64;
  }
  remora::StoreOptions options;
  options.memory_size = std::size_t{16} << 20;
  options.durability = remora::Durability::kLogged;  // each Put survives the death of this process
  options.data_dir = argv[1];
  auto store = remora::Store::Open(options);
  if (!store.ok()) {
    std::cerr << store.status() << '\n';
    return 1;
  }

  std::string runs;
  absl::Status status = (*store)->Get("runs", &runs);
  if (absl::IsNotFound(status)) {
    runs = "0";
  } else if (!status.ok()) {
    std::cerr << status << '\n';
    return 1;
  }
  runs = std::to_string(std::stoul(runs) + 1);
  if (status = (*store)->Put("runs", runs); !status.ok()) {
    std::cerr << status << '\n';
    return 1;
  }
  std::cout << "runs: " << runs << '\n';
}

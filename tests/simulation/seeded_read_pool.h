// Reads of the durable tier in a simulation: a seed chooses when each is done, and in which order.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "server/request/cold_read_pool.h"

namespace remora {

/// A pool without threads: TakeDone does the reads. A read may be done long before it is taken.
class SeededReadPool final : public ColdReadPool {
 public:
  /// Returns a function that makes such pools, each with a seed that follows from `seed`.
  static Factory FactoryOf(std::uint64_t seed) {
    return [random = std::mt19937_64(seed)](ReadFunction read, const std::function<void()>&) mutable {
      return std::make_unique<SeededReadPool>(random(), std::move(read));
    };
  }

  SeededReadPool(std::uint64_t seed, ReadFunction read) : random_(seed), read_(std::move(read)) {}

  void Begin(std::unique_ptr<ColdRead> read) override { reads_.push_back({std::move(read)}); }
  void TakeDone(std::vector<std::unique_ptr<ColdRead>>* done) override {
    while (!reads_.empty() && random_() % 3 == 0) {
      Read& read = reads_[random_() % reads_.size()];
      if (!std::exchange(read.is_done, true)) {
        read_(read.state.get());
        continue;
      }
      done->push_back(std::move(read.state));
      std::swap(read, reads_.back());
      reads_.pop_back();
    }
  }

 private:
  struct Read {
    std::unique_ptr<ColdRead> state;
    bool is_done = false;
  };

  std::mt19937_64 random_;
  const ReadFunction read_;
  std::vector<Read> reads_;
};

}  // namespace remora

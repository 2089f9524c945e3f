// Sets a metric of the server that is a gauge.
#pragma once

#include <cstdint>

#include "store/server_store.h"

namespace remora {

/// Sets the gauge. REQUIRES: no other thread changes it.
inline void SetGauge(ServerStore& store, Metric gauge, std::uint64_t value) {
  store.Add(gauge, static_cast<std::int64_t>(value) - static_cast<std::int64_t>(store.Read(gauge)));
}

}  // namespace remora

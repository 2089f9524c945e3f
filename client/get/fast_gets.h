// The fast path of several GETs side by side (client/get/fast_get.h), of one session or of several.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "client/get/fast_get.h"
#include "client/region/session_buffers.h"
#include "client/session/session.h"
#include "store/base/results.h"

namespace remora {

/// Tries the fast path for the keys whose bits in `wanted` are set; the lowest bit is the first key. It makes
/// one step for all keys, then the next step, so that the prefetch for one key completes during the steps of
/// others. Returns the keys that are left. The results of the others have their values, and keep their
/// status. `expiries` gets the expiry of each, unless it is empty. `session_of` and `hash_of` return the
/// session and the hash of the key of a number. REQUIRES: these keys are in bounds, and FastGet::IsFor their
/// sessions; there are up to SessionBuffers::kMaxBatch keys.
template <typename SessionOf, typename HashOf>
std::uint32_t TryFastGets(std::uint32_t wanted, std::span<const std::string_view> keys,
                          std::span<GetResult> results, const SessionOf& session_of, const HashOf& hash_of,
                          std::span<std::uint64_t> expiries = {}) {
  static_assert(SessionBuffers::kMaxBatch <= 32);
  struct Glance {
    FastGet look;
    std::uint64_t key_hash;
  };
  std::array<Glance, SessionBuffers::kMaxBatch> glances;
  std::uint32_t left = wanted, found = 0;
  for (std::uint32_t rest = left; rest != 0; rest &= rest - 1) {
    const auto i = static_cast<std::size_t>(std::countr_zero(rest));
    const Session& session = session_of(i);
    glances[i].key_hash = hash_of(i);
    if (!glances[i].look.FindLine(session, glances[i].key_hash)) continue;
    glances[i].look.PrefetchLine(session);
    found |= std::uint32_t{1} << i;
  }
  for (std::uint32_t rest = found; rest != 0; rest &= rest - 1) {
    const auto i = static_cast<std::size_t>(std::countr_zero(rest));
    const Session& session = session_of(i);
    if (glances[i].look.FindRecord(session, glances[i].key_hash)) {
      glances[i].look.PrefetchRecord(session);
    } else {
      found ^= rest & -rest;
    }
  }
  for (std::uint32_t rest = found; rest != 0; rest &= rest - 1) {
    const auto i = static_cast<std::size_t>(std::countr_zero(rest));
    if (CopyVerified(session_of(i), glances[i].look, keys[i], glances[i].key_hash, &results[i].value,
                     &results[i].version, expiries.empty() ? nullptr : &expiries[i])) {
      left ^= rest & -rest;
    }
  }
  return left;
}

}  // namespace remora

// The slots of a cluster of which a server has said that they are its own. A client that finds no slot of a
// key in the index of such a server knows from them whether the key is absent, or another server's.
//
//   K1 A miss counts if the server has all slots: the word in its superblock was 0 at the connect.
//   K2 Otherwise the client loads the word behind the READs of the search. The miss counts if this is the
//      word with which the server has said, over this connection, that the key's slot is its own. The word
//      grows before a slot leaves the server, so no record of the slot was taken away meanwhile.
//   K3 In all other cases, the server decides (kLocate). If it says that the key is absent, the client
//      remembers the slot and the word in the answer. It learns nothing from an answer that a slot moved.
//
// The client forgets all of it with the connection: another server, or a later start, begins with the same
// word. tests/models/moves.pml has faults for each of these rules.
#pragma once

#include <cstdint>
#include <memory>

namespace remora {

class ClusterSlots;

/// Slots that a server has, and the word that goes with them, valid until the connection breaks.
///
/// Thread safety: none.
class KnownSlots {
 public:
  KnownSlots();
  ~KnownSlots();
  KnownSlots(const KnownSlots&) = delete;
  KnownSlots& operator=(const KnownSlots&) = delete;

  /// Begins with a connection to a server in whose superblock this word is, and forgets all of an earlier
  /// one. Allocates 2 KiB, unless the word is 0.
  void Begin(std::uint64_t word);

  /// Returns whether the server may have a part of the slots (K1).
  bool compares() const { return slots_ != nullptr; }
  /// Returns whether the server has said that a slot is its own, with any word. REQUIRES: compares().
  bool Has(std::uint32_t slot) const;
  /// Returns whether a miss counts if `word` was loaded behind it (K2). REQUIRES: compares().
  bool Proves(std::uint32_t slot, std::uint64_t word) const;
  /// Takes the word with which the server says that a slot is its own (K3). Does nothing unless compares().
  void Learn(std::uint32_t slot, std::uint64_t word);

 private:
  std::unique_ptr<ClusterSlots> slots_;
  std::uint64_t word_ = 0;
};

}  // namespace remora

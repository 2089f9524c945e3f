// The disk under a server, as these tests have it. A library (disk.cc) that is loaded before all others
// stands between the program and the system's calls on files of one folder. It keeps a journal of the bytes
// and names that the disk was asked to keep, and fails where it is told to.
//
// The environment says where:
//   REMORA_DISK          The folder that is watched, with all below it. It has no symbolic links, and no
//                        name has a blank.
//   REMORA_DISK_JOURNAL  A file outside of it, on the same file system. A folder beside it, of the same name
//                        and ".saved", comes to hold what was removed or replaced. Unset: no journal.
//   REMORA_DISK_BOOT     A file that is read instead of the system's boot_id: a power cut starts the machine
//                        again. Unset: the system's.
//   REMORA_DISK_FAULTS   A file of kFaultBytes bytes, each a Fault; they count at once. Unset: no faults.
//
// The journal has a line for each of these, in their order. It is with the system when the call returns, so
// it survives the program's death at any moment; its last line may be incomplete.
//   create PATH            a file is about to be made
//   mkdir PATH             a folder
//   rename FROM TO SAVED   FROM is about to take the name TO; what had that name is kept as SAVED, or -
//   unlink PATH SAVED      PATH is about to be removed; it is kept as SAVED
//   synced PATH SIZE       the disk has the file's first SIZE bytes
//   synced_folder PATH     the disk has all of the above that came before, as far as it is about names in
//   PATH in_place PATH          the file is about to be written in place, or through a mapping; the folder
//   ".saved"
//                          has its bytes as of the last sync, by the name that ImageName gives
//   unmodelled CALL PATH   something that the cut (cut.h) cannot undo
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace remora {

/// Returns the name of the image of a file with this inode.
inline std::string ImageName(std::uint64_t inode) { return "image-" + std::to_string(inode); }

/// The bytes of REMORA_DISK_FAULTS, 0 for none. A call fails with its byte, if that is an errno.
enum class Fault : std::uint8_t {
  kChangeErrno = 0,  // opening a file to write to it, and making, renaming or removing one
  kWriteErrno = 1,
  kSyncErrno = 2,  // of a file; nothing of it is kept then
  kReadErrno = 3,
  kSyncLies = 4,      // not 0: fsync succeeds, and keeps nothing
  kSyncDelayMs = 5,   // how long each fsync of a file takes at least
  kOnly = 6,          // of writes, syncs and reads, those of files whose names end with this letter
  kReserveErrno = 7,  // of fallocate, whatever kOnly says
};
inline constexpr std::size_t kFaultBytes = 64;

}  // namespace remora

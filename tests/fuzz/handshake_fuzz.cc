// Packets of the local transport's handshake, as a peer may send them, with descriptors.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <vector>

#include "rdma/local/socket.h"
#include "tests/fuzz/input.h"

namespace {

void Send(int socket, std::string_view bytes, std::size_t descriptors) {
  static const int any = open("/dev/null", O_RDONLY | O_CLOEXEC);
  alignas(cmsghdr) char control[CMSG_SPACE(32 * sizeof(int))] = {};
  iovec part = {const_cast<char*>(bytes.data()), bytes.size()};  // sendmsg does not write it
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (descriptors > 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(descriptors * sizeof(int));
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors * sizeof(int));
    const std::vector<int> fds(descriptors, any);
    std::memcpy(CMSG_DATA(header), fds.data(), descriptors * sizeof(int));
  }
  FUZZ_CHECK(sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace remora::rdma;  // NOLINT(google-build-using-namespace)
  remora::Input input(data, size);
  const auto flags = input.Take<std::uint8_t>();
  int ends[2];
  FUZZ_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  const UniqueFd here(ends[0]);
  const UniqueFd there(ends[1]);
  const std::size_t descriptors = flags >> 1 & 31;
  if ((flags & 1) == 0) {
    Send(there.get(), input.rest().substr(0, 4096), descriptors);
    const ReceivedHello hello = ReceiveHello(here.get());
    FUZZ_CHECK(hello.cut || hello.descriptors.size() == descriptors || hello.size <= 0);
  } else {
    // Right in front, so that what is behind is looked at.
    LocalReply reply;
    std::string bytes(input.rest().substr(0, 4096));
    if ((flags & 64) != 0 && bytes.size() >= sizeof(reply)) {
      std::memcpy(bytes.data(), &reply, offsetof(LocalReply, answer));
      bytes.resize(sizeof(reply));
    }
    Send(there.get(), bytes, descriptors);
    const auto received = ReceiveReply(here.get());
    if (received.ok()) {
      FUZZ_CHECK(received->reply.magic == kLocalMagic);
      // Control data is rounded up to words, so one more may come; the caller counts them.
      FUZZ_CHECK(received->reply.version == kLocalVersion &&
                 received->descriptors.size() <= kLocalMaxDescriptors + 1);
    }
  }
  return 0;
}

#include "client/registered_buffer.h"

#include "client/misuse.h"
#include "client/session/endpoint.h"
#include "store/base/check.h"

namespace remora {

RegisteredBuffer::~RegisteredBuffer() {
  // Else they would read into memory that may be somebody else's.
  if (operations_ != 0) [[unlikely]] {
    EndOnMisuse(
        "a RegisteredBuffer is destroyed while operations of an AsyncClient have it; end them first, or "
        "destroy the client");
  }
  if (endpoint_ != nullptr) endpoint_->Remove(this);
}

RegisteredBytes RegisteredBuffer::Part(std::size_t offset, std::size_t size) const {
  REMORA_CHECK(offset <= bytes_.size() && size <= bytes_.size() - offset);
  return {*this, bytes_.subspan(offset, size)};
}

}  // namespace remora

#include "store/write/write.h"

#include <optional>

#include "store/format/types/expiry.h"

namespace remora {

Write MakeWrite(Write::Kind kind, std::string_view key, std::string_view value, const PutOptions& options) {
  Write write;
  write.kind = kind;
  write.key = key;
  write.value = value;
  write.ttl = options.ttl;
  write.condition = options.condition;
  write.durability = options.durability;
  return write;
}

Write& AddWrite(const BatchWrite& write, std::vector<Write>* writes) {
  Write& added = writes->emplace_back();
  switch (write.entry.kind) {
    case BatchKind::kPut:
      added.kind = Write::Kind::kPut;
      break;
    case BatchKind::kDelete:
      added.kind = Write::Kind::kDelete;
      break;
    case BatchKind::kCheck:
      added.kind = Write::Kind::kCheck;
      break;
  }
  added.key = write.key;
  added.value = write.value;
  added.ttl = DecodeTtl(write.entry.ttl_ms);
  added.condition = Condition::Decode(write.entry.condition);
  return added;
}

}  // namespace remora

#include "tests/linearizability/operation.h"

namespace remora::linear {
namespace {

std::string_view NameOf(Kind kind) {
  switch (kind) {
    case Kind::kGet:
      return "get";
    case Kind::kExists:
      return "exists";
    case Kind::kPut:
      return "put";
    case Kind::kDelete:
      return "delete";
    case Kind::kTouch:
      return "touch";
    case Kind::kIncrement:
      return "increment";
    case Kind::kAppend:
      return "append";
  }
  return "?";
}

std::string Shortened(const std::string& value) {
  constexpr std::size_t kMost = 60;
  return "'" + (value.size() <= kMost ? value : value.substr(0, kMost) + "...") + "'";
}

std::string ConditionText(const Condition& condition) {
  if (condition.is_none()) return "";
  if (condition == Condition::Absent()) return " if absent";
  if (condition == Condition::Present()) return " if present";
  return " if of version " + std::to_string(condition.version());
}

std::string Answer(const Operation& operation) {
  switch (operation.outcome) {
    case Outcome::kOk:
      break;
    case Outcome::kNotFound:
      return "not found";
    case Outcome::kAlreadyExists:
      return "exists already";
    case Outcome::kFailedPrecondition:
      return "has another version, or is no number";
    case Outcome::kUnknown:
      return operation.version == 0 ? "no answer"
                                    : "no answer, found to be version " + std::to_string(operation.version);
  }
  std::string text;
  if (operation.kind == Kind::kExists) return operation.result != 0 ? "yes" : "no";
  if (operation.kind == Kind::kGet) text = Shortened(operation.value) + " of ";
  if (operation.kind == Kind::kIncrement || operation.kind == Kind::kAppend) {
    text = std::to_string(operation.result) + ", ";
  }
  return text + "version " + std::to_string(operation.version);
}

}  // namespace

std::string Text(const Operation& operation) {
  std::string text = "[" + std::to_string(operation.begun) + ", " +
                     (operation.ended == kNever ? "never" : std::to_string(operation.ended)) + "] client " +
                     std::to_string(operation.client) + ": " + std::string(NameOf(operation.kind)) + " " +
                     operation.key;
  if (operation.kind == Kind::kPut || operation.kind == Kind::kAppend)
    text += " " + Shortened(operation.value);
  if (operation.kind == Kind::kIncrement) text += " by " + std::to_string(operation.delta);
  text += ConditionText(operation.condition);
  if (operation.ttl) {
    text += *operation.ttl == kNeverExpires ? " for ever"
                                            : " for " + std::to_string(operation.ttl->count()) + " ms";
  }
  if (operation.batch != 0) text += " in batch " + std::to_string(operation.batch);
  return text + ": " + Answer(operation);
}

}  // namespace remora::linear

#include "tests/linearizability/register.h"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace remora::linear {
namespace {

std::optional<std::int64_t> NumberIn(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Begins what stands for all values that nobody found, nor found the beginning of: one is as good as
/// another, but for its size, which follows.
constexpr std::string_view kUnfound = "?";

State WithVersion(State state, std::uint64_t version) {
  state.version = version;
  state.exact = true;
  return state;
}

/// The state, if its version may be this one.
std::optional<State> OfVersion(const State& state, std::uint64_t version, std::uint64_t next_version) {
  if (state.exact) return state.version == version ? std::optional(state) : std::nullopt;
  if (version <= state.version || version >= next_version) return std::nullopt;
  return WithVersion(state, version);
}

State Known(State state, State::Presence presence) {
  if (state.presence != State::Presence::kAny) return state;
  state.presence = presence;
  return state;
}

}  // namespace

Register::Register(const std::vector<Operation>& operations, const CheckOptions& options)
    : options_(options) {
  for (const Operation& operation : operations) {
    if (operation.outcome != Outcome::kOk) {
      has_appends_ = has_appends_ || operation.kind == Kind::kAppend;
      has_lost_appends_ =
          has_lost_appends_ || (operation.kind == Kind::kAppend && operation.outcome == Outcome::kUnknown);
    } else if (operation.kind == Kind::kGet) {
      found_.push_back(operation.value);
    } else if (operation.kind == Kind::kAppend) {
      has_appends_ = true;
    }
  }
  std::sort(found_.begin(), found_.end());
  found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
}

std::uint32_t Register::NumberOf(const std::string& value) {
  const auto at = std::lower_bound(found_.begin(), found_.end(), value);
  bool may_be_found = at != found_.end() && (*at == value || (has_appends_ && at->starts_with(value)));
  may_be_found = may_be_found || NumberIn(value).has_value();
  const std::string name =
      may_be_found
          ? value
          : std::string(kUnfound) + (has_appends_ && !has_lost_appends_ ? std::to_string(value.size()) : "");
  const auto [found, is_new] = numbers_.try_emplace(name, static_cast<std::uint32_t>(values_.size()));
  if (is_new) values_.push_back(name);
  return found->second;
}

std::optional<State> Register::Holds(const Condition& condition, const State& state,
                                     std::uint64_t next_version) const {
  if (condition.is_none()) return state;
  if (condition == Condition::Absent()) {
    return state.MayBeAbsent() ? std::optional(Known(state, State::Presence::kAbsent)) : std::nullopt;
  }
  if (!state.MayBePresent()) return std::nullopt;
  const State there = Known(state, State::Presence::kPresent);
  if (condition == Condition::Present()) return there;
  return OfVersion(there, condition.version(), next_version);
}

bool Register::SetValue(const Operation& operation, const State& before, State* after) {
  const bool is_there = before.presence == State::Presence::kPresent;
  const bool told = operation.outcome == Outcome::kOk;
  const bool any = before.value == State::kAnyValue || before.presence == State::Presence::kAny;
  after->value = State::kAnyValue;
  if (operation.kind == Kind::kIncrement) {
    if (any && is_there && !told) return true;
    std::optional<std::int64_t> sum = operation.result;
    if (!any) {
      const std::optional<std::int64_t> old = is_there ? NumberIn(ValueOf(before.value)) : 0;
      std::int64_t made = 0;
      if (!old || __builtin_add_overflow(*old, operation.delta, &made)) return false;
      if (told && made != operation.result) return false;
      sum = made;
    } else if (!told) {
      return true;
    }
    after->value = NumberOf(std::to_string(*sum));
    return true;
  }
  // kAppend
  if (any) return true;
  const std::string old = is_there ? ValueOf(before.value) : "";
  std::string made = old + operation.value;
  if (old == kUnfound) {
    made = kUnfound;
  } else if (old.starts_with(kUnfound)) {
    std::size_t size = 0;
    std::from_chars(old.data() + kUnfound.size(), old.data() + old.size(), size);
    made = std::string(size + operation.value.size(), kUnfound.front());
    if (told && static_cast<std::int64_t>(made.size()) != operation.result) return false;
  } else if (told && static_cast<std::int64_t>(made.size()) != operation.result) {
    return false;
  }
  after->value = NumberOf(made);
  return true;
}

void Register::SetExpiry(const Operation& operation, const State& before, State* after) const {
  const bool keeps =
      (operation.kind == Kind::kIncrement || operation.kind == Kind::kAppend) && !operation.ttl;
  if (keeps && before.presence != State::Presence::kAbsent) {
    after->expires_earliest = before.expires_earliest;
    after->expires_latest = before.expires_latest;
    return;
  }
  after->expires_earliest = after->expires_latest = kNever;
  if (!operation.ttl || *operation.ttl == kNeverExpires) return;
  const Time ttl = std::chrono::nanoseconds(*operation.ttl).count();
  const Time slack = std::chrono::nanoseconds(options_.slack).count() + ttl / 1'000'000 * options_.drift_ppm;
  after->expires_earliest = operation.begun + ttl - slack;
  if (operation.ended != kNever) after->expires_latest = operation.ended + ttl + slack;
}

// The value that an operation found may have expired by the time that its own value was seen, so others may
// have missed the key in between.
std::optional<State> Register::Do(const Operation& operation, const State& state,
                                  std::uint64_t next_version) {
  std::optional<State> after = DoOn(operation, state, next_version);
  const bool has_lapsed = state.presence == State::Presence::kAbsent && state.lapsed_latest != kNever &&
                          operation.begun <= state.lapsed_latest;
  if (after || !has_lapsed) return after;
  State found = state;
  found.presence = State::Presence::kPresent;
  return DoOn(operation, found, next_version);
}

std::optional<State> Register::DoOn(const Operation& operation, const State& state,
                                    std::uint64_t next_version) {
  if (operation.version != 0 && operation.version <= state.version) return std::nullopt;
  std::optional<State> before = Holds(operation.condition, state, next_version);
  if (!before) return std::nullopt;
  State after;
  after.presence = State::Presence::kPresent;
  after.exact = operation.version != 0;
  after.version = after.exact ? operation.version : before->version;
  if (!after.exact && next_version <= before->version + 1) return std::nullopt;  // no place for it
  switch (operation.kind) {
    case Kind::kGet:
    case Kind::kExists:
      return std::nullopt;
    case Kind::kPut:
      after.value = NumberOf(operation.value);
      break;
    case Kind::kDelete:
      if (!before->MayBePresent()) return std::nullopt;
      after.presence = State::Presence::kAbsent;
      after.exact = true;  // nobody sees the version of what is not there
      return after;
    case Kind::kTouch:
      if (!before->MayBePresent()) return std::nullopt;
      after.value = before->presence == State::Presence::kAny ? State::kAnyValue : before->value;
      break;
    case Kind::kIncrement:
    case Kind::kAppend:
      if (!SetValue(operation, *before, &after)) return std::nullopt;
      break;
  }
  SetExpiry(operation, *before, &after);
  return after;
}

std::optional<State> Register::Find(const Operation& operation, const State& state,
                                    std::uint64_t next_version) {
  const auto absent = [&]() -> std::optional<State> {
    if (!state.MayBeAbsent()) return std::nullopt;
    return Known(state, State::Presence::kAbsent);
  };
  if (operation.kind == Kind::kExists && operation.result == 0) return absent();
  if (operation.outcome == Outcome::kNotFound) {
    const bool may_be_left_out =
        operation.looked_until != 0 && state.expires_earliest <= operation.looked_until;
    return may_be_left_out ? std::optional(state) : absent();
  }
  if (!state.MayBePresent()) return std::nullopt;
  State there = Known(state, State::Presence::kPresent);
  if (operation.kind == Kind::kGet) {
    const std::uint32_t value = NumberOf(operation.value);
    if (there.value == State::kAnyValue || state.presence == State::Presence::kAny) {
      there.value = value;
    } else if (there.value != value) {
      return std::nullopt;
    }
    return OfVersion(there, operation.version, next_version);
  }
  if (operation.outcome != Outcome::kFailedPrecondition) return there;
  const Condition& condition = operation.condition;
  const bool names_version =
      !condition.is_none() && condition != Condition::Absent() && condition != Condition::Present();
  if (names_version && !(there.exact && there.version == condition.version())) return there;
  const bool is_no_number = operation.kind == Kind::kIncrement &&
                            (there.value == State::kAnyValue || !NumberIn(ValueOf(there.value)));
  return is_no_number ? std::optional(there) : std::nullopt;
}

State Register::Expired(const State& state) {
  State gone;
  gone.version = state.version;
  if (state.presence == State::Presence::kPresent && state.expires_latest != kNever) {
    gone.exact = state.exact;
    gone.value = state.value;
    gone.lapsed_latest = state.expires_latest;
  }
  return gone;
}

std::string Register::Signature(const Operation& operation) {
  std::string signature = std::to_string(static_cast<int>(operation.kind)) + " ";
  switch (operation.kind) {
    case Kind::kPut:
      signature += std::to_string(NumberOf(operation.value));
      break;
    case Kind::kAppend:
      signature += std::ranges::any_of(found_,
                                       [&](const std::string& found) {
                                         return found.find(operation.value) != std::string::npos;
                                       })
                       ? operation.value
                       : kUnfound;
      break;
    case Kind::kIncrement:
      signature += std::to_string(operation.delta);
      break;
    default:
      break;
  }
  signature += " " + std::to_string(operation.condition.Encode());
  // When it is gone depends on when it began.
  if (operation.ttl) {
    signature +=
        " for " + std::to_string(operation.ttl->count()) + " from " + std::to_string(operation.begun);
  }
  return signature;
}

std::string Register::Text(const State& state) const {
  std::string text;
  switch (state.presence) {
    case State::Presence::kAny:
      return "anything";
    case State::Presence::kAbsent:
      text = "absent";
      break;
    case State::Presence::kPresent:
      text = state.value == State::kAnyValue              ? "some value"
             : ValueOf(state.value).starts_with(kUnfound) ? "a value that nobody read"
                                                          : "'" + ValueOf(state.value) + "'";
      break;
  }
  text += (state.exact ? " of version " : " of a version above ") + std::to_string(state.version);
  const bool is_told = state.expires_earliest != kNever && state.expires_earliest > 0;
  if (is_told) text += ", until " + std::to_string(state.expires_earliest);
  return text;
}

}  // namespace remora::linear

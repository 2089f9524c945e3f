#include "tools/kvgate/resp/request_parser.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "tools/kvgate/resp/number_text.h"

namespace remora::kvgate {
namespace {

constexpr std::size_t kEndOfBytes = 2;  // CR and LF, behind an argument

bool IsBlank(char c) { return c == ' ' || (c >= '\t' && c <= '\r') || c == '\0'; }

std::optional<int> HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

/// Takes the character behind a backslash in double quotes off *line.
char TakeEscaped(std::string_view* line) {
  if (line->size() >= 3 && (*line)[0] == 'x') {
    const std::optional<int> high = HexDigit((*line)[1]);
    const std::optional<int> low = HexDigit((*line)[2]);
    if (high && low) {
      line->remove_prefix(3);
      return static_cast<char>(*high * 16 + *low);
    }
  }
  const char c = line->front();
  line->remove_prefix(1);
  constexpr std::string_view kNames = "nrtba";
  constexpr std::string_view kMeanings = "\n\r\t\b\a";
  const std::size_t place = kNames.find(c);
  return place == std::string_view::npos ? c : kMeanings[place];
}

/// Takes what stands between quotes, and the closing one. Returns false if it is missing.
bool TakeQuoted(std::string_view* line, char quote, Request* request) {
  while (!line->empty()) {
    char c = line->front();
    line->remove_prefix(1);
    if (c == quote) return line->empty() || IsBlank(line->front());
    if (c == '\\' && !line->empty()) {
      if (quote == '"') {
        c = TakeEscaped(line);
      } else if (line->front() == '\'') {
        c = '\'';
        line->remove_prefix(1);
      }
    }
    request->Append({&c, 1});
  }
  return false;
}

}  // namespace

bool SplitInline(std::string_view line, Request* request) {
  for (;;) {
    while (!line.empty() && IsBlank(line.front())) line.remove_prefix(1);
    if (line.empty()) return true;
    while (!line.empty() && !IsBlank(line.front())) {
      const char c = line.front();
      line.remove_prefix(1);
      if (c != '"' && c != '\'') {
        request->Append({&c, 1});
      } else if (!TakeQuoted(&line, c, request)) {
        return false;
      }
    }
    request->EndArgument();
  }
}

Parsed RequestParser::Parse(std::string_view* input, Request* request) {
  for (;;) {
    const State state = state_;
    Parsed parsed = Parsed::kNeedsMore;
    switch (state_) {
      case State::kBegin:
        if (input->empty()) return Parsed::kNeedsMore;
        request->Clear();
        is_oversized_ = false;
        state_ = input->front() == '*' ? State::kCount : State::kInline;
        break;
      case State::kInline:
        parsed = TakeInline(input, request);
        break;
      case State::kCount:
        parsed = TakeCount(input);
        break;
      case State::kLength:
        parsed = TakeLength(input, *request);
        break;
      case State::kBytes:
        TakeBytes(input, request);
        break;
      case State::kBytesEnd:
        parsed = TakeBytesEnd(input, request);
        break;
      case State::kFailed:
        return Parsed::kError;
    }
    if (parsed != Parsed::kNeedsMore || (state_ == state && input->empty())) return parsed;
  }
}

Parsed RequestParser::TakeInline(std::string_view* input, Request* request) {
  bool is_too_long = false;
  if (!TakeLine(input, '\n', 0, &is_too_long)) {
    return is_too_long ? Fail("Protocol error: too big inline request") : Parsed::kNeedsMore;
  }
  std::string_view line = line_;
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (!SplitInline(line, request)) return Fail("Protocol error: unbalanced quotes in request");
  return Complete(request);
}

Parsed RequestParser::TakeCount(std::string_view* input) {
  bool is_too_long = false;
  if (!TakeLine(input, '\r', 1, &is_too_long)) {
    return is_too_long ? Fail("Protocol error: too big mbulk count string") : Parsed::kNeedsMore;
  }
  const std::optional<std::int64_t> count = ParseInteger(std::string_view(line_).substr(1));
  if (!count || *count > static_cast<std::int64_t>(kMaxArguments)) {
    return Fail("Protocol error: invalid multibulk length");
  }
  if (is_stranger_ && *count > kMaxArgumentsOfStranger) {
    return Fail("Protocol error: unauthenticated multibulk length");
  }
  line_.clear();
  arguments_ = *count > 0 ? static_cast<std::size_t>(*count) : 0;
  state_ = arguments_ > 0 ? State::kLength : State::kBegin;
  return Parsed::kNeedsMore;
}

Parsed RequestParser::TakeLength(std::string_view* input, const Request& request) {
  // Before the end of the line has come: it may never come.
  if (line_.empty() && !input->empty() && input->front() != '$') {
    return Fail(std::string("Protocol error: expected '$', got '") + input->front() + "'");
  }
  bool is_too_long = false;
  if (!TakeLine(input, '\r', 1, &is_too_long)) {
    return is_too_long ? Fail("Protocol error: too big bulk count string") : Parsed::kNeedsMore;
  }
  const std::optional<std::int64_t> length = ParseInteger(std::string_view(line_).substr(1));
  if (!length || *length < 0 || *length > kMaxStatedLength) {
    return Fail("Protocol error: invalid bulk length");
  }
  if (is_stranger_ && *length > kMaxLengthOfStranger) {
    return Fail("Protocol error: unauthenticated bulk length");
  }
  line_.clear();
  length_ = static_cast<std::size_t>(*length);
  if (request.bytes() + length_ > max_bytes_) is_oversized_ = true;
  state_ = State::kBytes;
  return Parsed::kNeedsMore;
}

void RequestParser::TakeBytes(std::string_view* input, Request* request) {
  const std::size_t taken = std::min(length_, input->size());
  if (is_oversized_) {
    *request = {};  // its memory, too
  } else {
    request->Append(input->substr(0, taken));
  }
  input->remove_prefix(taken);
  length_ -= taken;
  if (length_ > 0) return;
  skip_ = kEndOfBytes;
  state_ = State::kBytesEnd;
}

Parsed RequestParser::TakeBytesEnd(std::string_view* input, Request* request) {
  const std::size_t taken = std::min(skip_, input->size());
  input->remove_prefix(taken);
  skip_ -= taken;
  if (skip_ > 0) return Parsed::kNeedsMore;
  if (!is_oversized_) request->EndArgument();
  if (--arguments_ == 0) return Complete(request);
  state_ = State::kLength;
  return Parsed::kNeedsMore;
}

bool RequestParser::TakeLine(std::string_view* input, char end, std::size_t behind, bool* is_too_long) {
  if (!line_ended_) {
    const std::size_t size = input->find(end);
    const bool ends = size != std::string_view::npos;
    if (line_.size() + (ends ? size : input->size()) > kMaxLine) {
      *is_too_long = true;
      return false;
    }
    line_ += input->substr(0, size);
    input->remove_prefix(ends ? size + 1 : input->size());
    if (!ends) return false;
    line_ended_ = true;
    skip_ = behind;
  }
  const std::size_t taken = std::min(skip_, input->size());
  input->remove_prefix(taken);
  skip_ -= taken;
  if (skip_ > 0) return false;
  line_ended_ = false;
  return true;
}

Parsed RequestParser::Fail(std::string error) {
  error_ = std::move(error);
  state_ = State::kFailed;
  return Parsed::kError;
}

Parsed RequestParser::Complete(Request* request) {
  state_ = State::kBegin;
  line_.clear();
  if (is_oversized_) {
    request->Clear();
    return Parsed::kOversized;
  }
  // An empty line is no command.
  return request->empty() ? Parsed::kNeedsMore : Parsed::kCommand;
}

}  // namespace remora::kvgate

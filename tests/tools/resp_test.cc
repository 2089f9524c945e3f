// The parser and the replies of Redis's protocol.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/kvgate/resp/number_text.h"
#include "tools/kvgate/resp/reply.h"
#include "tools/kvgate/resp/request.h"
#include "tools/kvgate/resp/request_parser.h"

namespace remora::kvgate {
namespace {

using namespace std::literals;

constexpr std::size_t kMaxBytes = 100;

std::vector<std::string> WordsOf(const Request& request) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < request.size(); ++i) words.emplace_back(request[i]);
  return words;
}

/// All that a parser says of pieces that come one after the other: a line for each command and error.
std::string Transcript(const std::vector<std::string_view>& pieces, std::size_t max_bytes = kMaxBytes) {
  RequestParser parser(max_bytes);
  Request request;
  std::string said;
  for (std::string_view piece : pieces) {
    for (;;) {
      const Parsed parsed = parser.Parse(&piece, &request);
      if (parsed == Parsed::kNeedsMore) break;
      if (parsed == Parsed::kError) return said + "error " + parser.error() + "\n";
      if (parsed == Parsed::kOversized) said += "oversized";
      for (const std::string& word : WordsOf(request)) said += "[" + word + "]";
      said += "\n";
    }
    EXPECT_TRUE(piece.empty());
  }
  return said + (parser.is_within_command() ? "incomplete" : "");
}

const std::vector<std::string> kInputs = {
    "*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n",
    "*3\r\n$3\r\nSET\r\n$0\r\n\r\n$4\r\n\r\n\0x\r\n"s,
    "*0\r\n*-1\r\n*1\r\n$1\r\na\r\n",
    "PING\r\nset  key \"a \\x41\\n\\\"\" 'b \\' \\n'\n\r\n  \r\nGET key\n",
    "*2\r\n$3\r\nSET\r\n$150\r\n" + std::string(150, 'v') + "\r\nPING\r\n",
    "*3\r\n$60\r\n" + std::string(60, 'a') + "\r\n$60\r\n" + std::string(60, 'b') +
        "\r\n$1\r\nc\r\n*1\r\n$1\r\nd\r\n",
    "*1\r\n:3\r\n",
    "*1\r\n$x\r\n",
    "*1\r\n$-1\r\n",
    "*1\r\n$536870913\r\n",
    "*1048577\r\n",
    "*x\r\n",
    "get \"key\r\n",
    "get 'a'b\r\n",
    "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nval",
    "",
};

TEST(RequestParser, EachSplitOfAnInputSaysTheSame) {
  for (const std::string& input : kInputs) {
    const std::string_view whole = input;
    const std::string expected = Transcript({whole});
    std::vector<std::string_view> bytes;
    for (std::size_t i = 0; i < whole.size(); ++i) bytes.push_back(whole.substr(i, 1));
    EXPECT_EQ(Transcript(bytes), expected) << input;
    for (std::size_t split = 0; split <= whole.size(); ++split) {
      EXPECT_EQ(Transcript({whole.substr(0, split), whole.substr(split)}), expected) << input << split;
    }
  }
}

TEST(RequestParser, EachSplitIntoThreeSaysTheSame) {
  for (const std::string& input : kInputs) {
    if (input.size() > 60) continue;
    const std::string_view whole = input;
    const std::string expected = Transcript({whole});
    for (std::size_t one = 0; one <= whole.size(); ++one) {
      for (std::size_t two = one; two <= whole.size(); ++two) {
        EXPECT_EQ(Transcript({whole.substr(0, one), whole.substr(one, two - one), whole.substr(two)}),
                  expected);
      }
    }
  }
}

TEST(RequestParser, ArraysOfBulkStrings) {
  EXPECT_EQ(Transcript({kInputs[0]}), "[PING]\n[GET][key]\n");
  EXPECT_EQ(Transcript({kInputs[1]}), "[SET][][\r\n\0x]\n"s);
}

TEST(RequestParser, EmptyArraysAndLinesAreNoCommands) {
  EXPECT_EQ(Transcript({kInputs[2]}), "[a]\n");
  EXPECT_EQ(Transcript({"\r\n\n \r\n"}), "");
}

TEST(RequestParser, InlineCommandsHaveQuotes) {
  EXPECT_EQ(Transcript({kInputs[3]}), "[PING]\n[set][key][a A\n\"][b ' \\n]\n[GET][key]\n");
  EXPECT_EQ(Transcript({"a\"b c\"\r\n\"\"\r\n\"\\xzz\\xA\"\r\n"}), "[ab c]\n[]\n[xzzxA]\n");
}

TEST(RequestParser, ALargeCommandIsSkippedAndTheNextOneRead) {
  EXPECT_EQ(Transcript({kInputs[4]}), "oversized\n[PING]\n");
  EXPECT_EQ(Transcript({kInputs[5]}), "oversized\n[d]\n");
}

TEST(RequestParser, OfALargeCommandNothingIsKept) {
  RequestParser parser(kMaxBytes);
  Request request;
  const std::string begin = "*3\r\n$90\r\n" + std::string(90, 'a') + "\r\n$536870912\r\n";
  std::string_view input = begin;
  EXPECT_EQ(parser.Parse(&input, &request), Parsed::kNeedsMore);
  const std::string piece(1 << 20, 'b');
  input = piece;
  EXPECT_EQ(parser.Parse(&input, &request), Parsed::kNeedsMore);
  EXPECT_TRUE(input.empty());
  EXPECT_EQ(request.bytes(), 0u);
}

TEST(RequestParser, ProtocolErrorsAreReported) {
  EXPECT_EQ(Transcript({kInputs[6]}), "error Protocol error: expected '$', got ':'\n");
  EXPECT_EQ(Transcript({kInputs[7]}), "error Protocol error: invalid bulk length\n");
  EXPECT_EQ(Transcript({kInputs[8]}), "error Protocol error: invalid bulk length\n");
  EXPECT_EQ(Transcript({kInputs[9]}), "error Protocol error: invalid bulk length\n");
  EXPECT_EQ(Transcript({kInputs[10]}), "error Protocol error: invalid multibulk length\n");
  EXPECT_EQ(Transcript({kInputs[11]}), "error Protocol error: invalid multibulk length\n");
  EXPECT_EQ(Transcript({kInputs[12]}), "error Protocol error: unbalanced quotes in request\n");
  EXPECT_EQ(Transcript({kInputs[13]}), "error Protocol error: unbalanced quotes in request\n");
}

TEST(RequestParser, LinesAreBounded) {
  const std::string most(RequestParser::kMaxLine, 'a');
  EXPECT_EQ(Transcript({most, "\n"}, most.size()), "[" + most + "]\n");
  EXPECT_EQ(Transcript({most, "a"}), "error Protocol error: too big inline request\n");
  EXPECT_EQ(Transcript({"*" + most}), "error Protocol error: too big mbulk count string\n");
  EXPECT_EQ(Transcript({"*1\r\n$" + most}), "error Protocol error: too big bulk count string\n");
}

TEST(RequestParser, AMillionArguments) {
  std::string input = "*1048576\r\n";
  for (std::size_t i = 0; i < RequestParser::kMaxArguments; ++i) input += "$1\r\na\r\n";
  RequestParser parser(RequestParser::kMaxArguments);
  Request request;
  std::string_view rest = input;
  EXPECT_EQ(parser.Parse(&rest, &request), Parsed::kCommand);
  EXPECT_EQ(request.size(), RequestParser::kMaxArguments);
}

TEST(RequestParser, AnErrorStays) {
  RequestParser parser(kMaxBytes);
  Request request;
  std::string_view input = "*x\r\nPING\r\n";
  EXPECT_EQ(parser.Parse(&input, &request), Parsed::kError);
  const std::string_view rest = input;
  EXPECT_EQ(parser.Parse(&input, &request), Parsed::kError);
  EXPECT_EQ(input, rest);
}

template <typename Write>
std::string Written(int protocol, Write write) {
  Reply reply(protocol);
  write(reply);
  return reply.bytes();
}

TEST(Reply, TypesOfBothVersions) {
  for (const int protocol : {2, 3}) {
    EXPECT_EQ(Written(protocol, [](Reply& reply) { reply.Ok(); }), "+OK\r\n");
    EXPECT_EQ(Written(protocol, [](Reply& reply) { reply.Integer(-12); }), ":-12\r\n");
    EXPECT_EQ(Written(protocol, [](Reply& reply) { reply.Bulk("a\r\n\0"sv); }), "$4\r\na\r\n\0\r\n"s);
    EXPECT_EQ(Written(protocol, [](Reply& reply) { reply.Bulk(""); }), "$0\r\n\r\n");
    EXPECT_EQ(Written(protocol, [](Reply& reply) { reply.Array(3); }), "*3\r\n");
  }
}

TEST(Reply, TypesThatDiffer) {
  const auto null = [](Reply& reply) { reply.Null(); };
  const auto null_array = [](Reply& reply) { reply.NullArray(); };
  const auto map = [](Reply& reply) { reply.Map(2); };
  const auto set = [](Reply& reply) { reply.Set(2); };
  const auto text = [](Reply& reply) { reply.Verbatim("abc"); };
  EXPECT_EQ(Written(2, null), "$-1\r\n");
  EXPECT_EQ(Written(3, null), "_\r\n");
  EXPECT_EQ(Written(2, null_array), "*-1\r\n");
  EXPECT_EQ(Written(3, null_array), "_\r\n");
  EXPECT_EQ(Written(2, map), "*4\r\n");
  EXPECT_EQ(Written(3, map), "%2\r\n");
  EXPECT_EQ(Written(2, set), "*2\r\n");
  EXPECT_EQ(Written(3, set), "~2\r\n");
  EXPECT_EQ(Written(2, text), "$3\r\nabc\r\n");
  EXPECT_EQ(Written(3, text), "=7\r\ntxt:abc\r\n");
}

TEST(Reply, AnErrorIsOneLine) {
  EXPECT_EQ(Written(2, [](Reply& reply) { reply.Error("ERR a\r\n+OK"); }), "-ERR a  +OK\r\n");
}

TEST(NumberText, IntegersHaveOneForm) {
  EXPECT_EQ(ParseInteger("0"), 0);
  EXPECT_EQ(ParseInteger("-9223372036854775808"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(ParseInteger("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  for (const char* const none :
       {"", "-", "-0", "00", "01", "+1", " 1", "1 ", "1.0", "9223372036854775808", "a"}) {
    EXPECT_EQ(ParseInteger(none), std::nullopt) << none;
  }
}

TEST(NumberText, Floats) {
  EXPECT_EQ(ParseFloat("1.5"), 1.5L);
  EXPECT_EQ(ParseFloat("5e3"), 5000.0L);
  EXPECT_TRUE(ParseFloat("inf").has_value());
  for (const std::string_view none :
       {""sv, " 1"sv, "1 "sv, "nan"sv, "x"sv, "1\0"sv, "1e999999"sv, "1e-999999"sv}) {
    EXPECT_EQ(ParseFloat(none), std::nullopt) << none;
  }
  EXPECT_EQ(ParseFloat(std::string(256, '1')), std::nullopt);
  EXPECT_EQ(FormatFloat(10.5L), "10.5");
  EXPECT_EQ(FormatFloat(3.0L), "3");
  EXPECT_EQ(FormatFloat(5000.0L), "5000");
  EXPECT_EQ(FormatFloat(-0.0L), "0");
  EXPECT_EQ(FormatFloat(0.1L), "0.1");
}

}  // namespace
}  // namespace remora::kvgate

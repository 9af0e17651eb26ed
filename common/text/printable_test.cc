#include "common/text/printable.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "common/text/dump_json.h"
#include "common/text/error_json.h"
#include "common/text/utf8.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(PrintableTest, WritesOutWhatSteersATerminal) {
  EXPECT_EQ(PrintableLine("\x1b]0;title\x07\x1b[2J"), "\\x1b]0;title\\x07\\x1b[2J");
  EXPECT_EQ(PrintableLine("a\rb\x7f"), "a\\rb\\x7f");
  // CSI as C1 has it, in UTF-8 and as a raw byte.
  EXPECT_EQ(PrintableLine("\xc2\x9b"
                          "31m"),
            "\\u009b31m");
  EXPECT_EQ(PrintableLine("\x9b"
                          "31m"),
            "\\x9b31m");
  EXPECT_EQ(PrintableLine("invoice\xe2\x80\xae"
                          "fdp.exe"),
            "invoice\\u202efdp.exe");
  EXPECT_EQ(PrintableLine("\xe2\x81\xa6\xe2\x81\xa9\xd8\x9c"), "\\u2066\\u2069\\u061c");
  EXPECT_EQ(PrintableLine(absl::string_view("\0", 1)), "\\x00");
}

TEST(PrintableTest, KeepsAllOtherText) {
  const std::string text =
      "gr\xc3\xb6\xc3\x9f"
      "e \xe2\x82\xac \xf0\x9f\x98\x80 \\x1b \xd7\xa9";
  EXPECT_EQ(PrintableLine(text), text);
  EXPECT_EQ(PrintableText(text), text);
}

TEST(PrintableTest, LineBreaksAndTabsStayInTextOnly) {
  EXPECT_EQ(PrintableLine("a\n\tb"), "a\\n\\tb");
  EXPECT_EQ(PrintableText("a\n\tb\x1b"), "a\n\tb\\x1b");
}

TEST(PrintableTest, PiecesMayEndAnywhere) {
  const std::string text = "a\xc3\xa9\xe2\x80\xae\xf0\x9f\x98\x80\x1b[2J\n\xff\xe2\x82";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    PrintableStream stream;
    std::string shown = stream.Add(text.substr(0, cut));
    shown += stream.Add(text.substr(cut));
    shown += stream.Finish();
    EXPECT_EQ(shown, PrintableText(text)) << cut;
  }
}

TEST(PrintableTest, NothingOfJsonChangesItsMeaning) {
  std::string all;
  for (uint32_t c = 0; c < 0x2100; ++c) AppendUtf8(c, all);
  const nlohmann::json json = {{"text", all}, {"list", {1, 2}}};
  const std::string shown = PrintableJson(DumpJson(json, 1));
  EXPECT_EQ(PrintableText(shown), shown);
  EXPECT_EQ(nlohmann::json::parse(shown), json);
}

TEST(DumpJsonTest, TextThatIsNotUtf8DoesNotEndTheProgram) {
  EXPECT_EQ(DumpJson(nlohmann::json{{"file", "gr\xf6sse"}}), "{\"file\":\"gr\xef\xbf\xbdsse\"}");
}

TEST(ErrorJsonTest, IsOneLineWhateverItTells) {
  EXPECT_EQ(ErrorJson("NOT_FOUND", "no \"x\"", 2),
            R"({"error":{"code":"NOT_FOUND","message":"no \"x\"","exit_code":2}})");
  const std::string hostile = "gr\xf6sse\x1b[2J\n\xe2\x80\xae";
  const std::string shown = ErrorJson("INTERNAL", hostile, 1);
  EXPECT_EQ(PrintableLine(shown), shown);
  EXPECT_EQ(nlohmann::json::parse(shown)["error"]["message"],
            "gr\xef\xbf\xbdsse\x1b[2J\n\xe2\x80\xae");
}

}  // namespace
}  // namespace muster

#include "common/chat_template/syntax/template_lexer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

// Returns the texts between tags, in brackets, and the words of tags.
std::string Lexed(absl::string_view text) {
  const auto tokens = LexTemplate(NormalizedTemplate(text));
  if (!tokens.ok()) return std::string(tokens.status().message());
  std::string lexed;
  for (const TemplateToken& token : *tokens) {
    if (token.kind == TemplateToken::Kind::kText) {
      absl::StrAppend(&lexed, "[", token.text, "]");
    } else if (!token.text.empty()) {
      absl::StrAppend(&lexed, token.text, ";");
    } else if (token.kind == TemplateToken::Kind::kInteger) {
      absl::StrAppend(&lexed, token.integer, ";");
    } else if (token.kind == TemplateToken::Kind::kFloat) {
      absl::StrAppend(&lexed, token.number, "f;");
    }
  }
  return lexed;
}

TEST(TemplateLexerTest, TakesWhitespaceAsTrimBlocksAndLstripBlocksDo) {
  EXPECT_EQ(Lexed("a\n  {% if %}\n  b {{ x }}\n"), "[a\n]if;[  b ]x;");
  EXPECT_EQ(Lexed("a {%- if -%} \n b"), "[a]if;[b]");
  EXPECT_EQ(Lexed("  {%+ if +%}\nb"), "[  ]if;[\nb]");
  EXPECT_EQ(Lexed("x {# c #}\n {#- d -#}\n e"), "[x ][e]");
  EXPECT_EQ(Lexed("{{ x }}\n{{- y -}}\n z\n\n"), "x;y;[z\n]");
  EXPECT_EQ(Lexed("a\r\nb\rc"), "[a\nb\nc]");
}

TEST(TemplateLexerTest, KeepsRawText) {
  EXPECT_EQ(Lexed("{% raw %}{{ x }}{% endraw %}y"), "[{{ x }}][y]");
  EXPECT_EQ(Lexed("{%- raw -%} {% if %} {%- endraw -%} y"), "[{% if %}][y]");
}

TEST(TemplateLexerTest, ReadsTokens) {
  EXPECT_EQ(Lexed("{{ a_1.b[0] != 1_0 ** 2.5e1 }}"), "a_1;.;b;[;0;];!=;10;**;25f;");
  EXPECT_EQ(Lexed("{{ {'a': {'b': 1}} }}x"), "{;a;:;{;b;:;1;};};[x]");
  EXPECT_EQ(Lexed("{{ 'a\\n\\u00e9\\x41\\d\\'' \"q\" }}"),
            "a\né"
            "A\\d';q;");
}

TEST(TemplateLexerTest, TellsWhereAnErrorIs) {
  EXPECT_THAT(Lexed("a\nb {{ x"), HasSubstr("line 2, column 3: the tag that begins here"));
  EXPECT_THAT(Lexed("{{ 'a }}"), HasSubstr("column 4: the string that begins here"));
  EXPECT_THAT(Lexed("{# a"), HasSubstr("the comment that begins here"));
  EXPECT_THAT(Lexed("{% raw %}"), HasSubstr("'raw' begins here"));
  EXPECT_THAT(Lexed("{{ (1] }}"), HasSubstr("column 6: ']' closes no bracket"));
  EXPECT_THAT(Lexed("{{ ? }}"), HasSubstr("no such character"));
  EXPECT_THAT(Lexed("{{ 99999999999999999999 }}"), HasSubstr("no integer of 64 bits"));
  EXPECT_THAT(Lexed("{{ '\\ud800' }}"), HasSubstr("an escape in the string is no character"));
  EXPECT_THAT(Lexed("{{ '\\x4' }}"), HasSubstr("hexadecimal digits"));
}

}  // namespace
}  // namespace muster

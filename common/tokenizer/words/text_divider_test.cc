#include "common/tokenizer/words/text_divider.h"

#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/tokenizer/words/text_rules.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using Json = nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kLlama3[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+"
    "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

Json SplitBy(const char* regex, const char* behavior = "Isolated") {
  return {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", behavior}};
}

Json InSequence(const Json& rules) { return {{"type", "Sequence"}, {"pretokenizers", rules}}; }

Json Metaspace(const char* scheme) {
  return {{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", scheme}};
}

std::unique_ptr<const TextDivider> Make(const Json& tokenizer, std::vector<AddedToken> added = {},
                                        std::unique_ptr<const CharacterPairs> pairs = nullptr) {
  auto rules = ParseTextRules(TextRulesOf(tokenizer), "t.json");
  EXPECT_TRUE(rules.ok()) << rules.status();
  return std::make_unique<const TextDivider>(*std::move(rules), std::move(added), std::move(pairs));
}

// Added tokens in brackets.
std::vector<std::string> Pieces(const TextDivider& divider, absl::string_view text,
                                TextStart start = TextStart::kText) {
  std::vector<std::string> pieces;
  divider.ForEachPiece(text, start, [&](const TextDivider::Piece& piece) {
    const std::string part(piece.text);
    pieces.push_back(piece.added == nullptr ? part : "[" + part + "]");
  });
  return pieces;
}

std::vector<std::string> Words(const Json& pre_tokenizer, absl::string_view text) {
  return Pieces(*Make({{"pre_tokenizer", pre_tokenizer}}), text);
}

std::string Error(const Json& tokenizer) {
  return std::string(ParseTextRules(TextRulesOf(tokenizer), "t.json").status().message());
}

TEST(TextDividerTest, SplitsBehaveAsTheyAreNamed) {
  const char* text = "a--b-";
  EXPECT_THAT(Words(SplitBy("-"), text), ElementsAre("a", "-", "-", "b", "-"));
  EXPECT_THAT(Words(SplitBy("-", "Removed"), text), ElementsAre("a", "b"));
  EXPECT_THAT(Words(SplitBy("-", "Contiguous"), text), ElementsAre("a", "--", "b", "-"));
  EXPECT_THAT(Words(SplitBy("-", "MergedWithPrevious"), text), ElementsAre("a-", "-", "b-"));
  EXPECT_THAT(Words(SplitBy("-", "MergedWithNext"), text), ElementsAre("a", "-", "-b", "-"));
  Json inverted = SplitBy("[a-z]+", "Removed");
  inverted["invert"] = true;
  EXPECT_THAT(Words(inverted, "ab--c d"), ElementsAre("ab", "c", "d"));
  EXPECT_THAT(Words(SplitBy("(?=[A-Z])"), "camelCaseX"), ElementsAre("camel", "Case", "X"));
  const Json by_text = {
      {"type", "Split"}, {"pattern", {{"String", "."}}}, {"behavior", "Isolated"}};
  EXPECT_THAT(Words(by_text, "a.b"), ElementsAre("a", ".", "b"));
}

TEST(TextDividerTest, KnownDivisions) {
  EXPECT_THAT(Words({{"type", "Digits"}, {"individual_digits", true}}, "a12\u00bd"),
              ElementsAre("a", "1", "2", "\u00bd"));
  EXPECT_THAT(Words({{"type", "Digits"}}, "a12b"), ElementsAre("a", "12", "b"));
  EXPECT_THAT(Words({{"type", "Punctuation"}}, "a+b\u3002c"),
              ElementsAre("a", "+", "b", "\u3002", "c"));
  EXPECT_THAT(Words({{"type", "WhitespaceSplit"}}, " a \n b"), ElementsAre("a", "b"));
  EXPECT_THAT(Words(SplitBy(kLlama3), "I'LL 12345\r\n  x"),
              ElementsAre("I", "'LL", " ", "123", "45", "\r\n", " ", " x"));
  EXPECT_THAT(Words(InSequence({SplitBy("\\p{N}{1,3}"), SplitBy("[a-z]+")}), "ab1234c!"),
              ElementsAre("ab", "123", "4", "c", "!"));
  EXPECT_THAT(Words(nullptr, "all of it"), ElementsAre("all of it"));
}

TEST(TextDividerTest, MetaspacePutsACharacterBeforeTextsAsItsSchemeSays) {
  const AddedToken end{1, "<e>"};
  const auto pieces = [&](const char* scheme, TextStart start) {
    return Pieces(*Make({{"pre_tokenizer", Metaspace(scheme)}}, {end}), "a b<e>c", start);
  };
  EXPECT_THAT(pieces("always", TextStart::kText), ElementsAre("_a", "_b", "[<e>]", "_c"));
  EXPECT_THAT(pieces("first", TextStart::kText), ElementsAre("_a", "_b", "[<e>]", "c"));
  EXPECT_THAT(pieces("never", TextStart::kText), ElementsAre("a", "_b", "[<e>]", "c"));
  EXPECT_THAT(pieces("always", TextStart::kWithin), ElementsAre("a", "_b", "[<e>]", "_c"));
  EXPECT_THAT(Words(InSequence({{{"type", "WhitespaceSplit"}}, Metaspace("always")}), " a  b"),
              ElementsAre("_a", "_b"));
}

TEST(TextDividerTest, AddedTokensAreFoundBeforeAndBehindTheNormalizer) {
  const AddedToken raw{1, "\ufb01"};
  AddedToken normalized{2, "\ufb02"};
  normalized.normalized = true;
  const auto divider =
      Make({{"normalizer", {{"type", "NFKC"}}}, {"pre_tokenizer", nullptr}}, {raw, normalized});
  EXPECT_THAT(Pieces(*divider, "\ufb01fi\ufb02fl"), ElementsAre("[\ufb01]", "fi", "[fl]", "[fl]"));
}

TEST(TextDividerTest, WordsAreDividedWhereNoTokenJoins) {
  auto pairs = std::make_unique<CharacterPairs>();
  for (const char* token : {"ab", "_a", "bc"}) pairs->Add(token);
  const auto divider =
      Make({{"normalizer", {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "_"}}},
            {"pre_tokenizer", nullptr}},
           {}, std::move(pairs));
  EXPECT_THAT(Pieces(*divider, "abc a!ba"), ElementsAre("abc", "_a", "!", "b", "a"));
}

TEST(TextDividerTest, TokensBeforeDocumentsAreThoseOfTheTemplate) {
  const Json single = {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
                       {{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
                       {{"SpecialToken", {{"id", "</s>"}, {"type_id", 0}}}}};
  Json json = {{"pre_tokenizer", nullptr},
               {"post_processor",
                {{"type", "TemplateProcessing"},
                 {"single", single},
                 {"special_tokens", {{"<s>", {{"ids", {7, 8}}}}, {"</s>", {{"ids", {9}}}}}}}}};
  EXPECT_THAT(Make(json)->rules().before_document, ElementsAre(7, 8));
  json["post_processor"]["special_tokens"] = {{"</s>", {{"ids", {9}}}}};
  EXPECT_THAT(Error(json), HasSubstr("post_processor.single is an object of 1 member; expected"));
}

TEST(TextDividerTest, RulesThatAreNotUnderstoodAreRefusedByPlace) {
  EXPECT_THAT(Error({{"pre_tokenizer", InSequence({SplitBy("a"), SplitBy("secret^")})}}),
              HasSubstr("t.json: pre_tokenizer.pretokenizers[1].pattern: the expression has an "
                        "anchor at byte 6"));
  EXPECT_THAT(Error({{"pre_tokenizer", SplitBy("a", "secret")}}),
              HasSubstr("pre_tokenizer.behavior is a text of 6 characters; expected Isolated"));
  EXPECT_THAT(Error({{"normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "AAA="}}},
                     {"pre_tokenizer", nullptr}}),
              HasSubstr("normalizer: the table of normalized characters has 2 bytes"));
  EXPECT_THAT(Error({{"pre_tokenizer", Metaspace("secret")}}), HasSubstr("prepend_scheme"));
  EXPECT_THAT(
      Error({{"pre_tokenizer", InSequence({{{"type", "ByteLevel"}}, {{"type", "Digits"}}})}}),
      HasSubstr("pretokenizers[1] is an object of type Digits; it would divide"));
}

TEST(TextDividerTest, WhatEncodesAlikeHasTheSameIdentity) {
  const auto identity = [](const Json& tokenizer) { return Make(tokenizer)->rules().identity; };
  Json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}};
  EXPECT_THAT(identity({{"pre_tokenizer", byte_level}}), IsEmpty());
  byte_level["use_regex"] = false;
  const std::string split = identity({{"pre_tokenizer", byte_level}});
  EXPECT_FALSE(split.empty());
  byte_level["trim_offsets"] = false;
  EXPECT_EQ(identity({{"pre_tokenizer", byte_level}}), split);
}

// Texts of everything that words depend on, divided wherever they may be.
TEST(TextDividerTest, TextsAreDividedWhereThePartsPiecesAreTheWholes) {
  const Json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const Json digits = SplitBy("\\p{N}{1,3}");
  const Json cjk = SplitBy("[\u4e00-\u9fa5]+");
  const Json rest = SplitBy(
      "[!-~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*"
      "[\r\n]+|\\s+(?!\\S)|\\s+");
  const Json replace = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "_"}};
  const Json prepend = {{"type", "Prepend"}, {"prepend", "_"}};
  const Json prepended = {{"type", "Sequence"}, {"normalizers", {prepend, replace}}};
  const std::vector<Json> tokenizers = {
      {{"pre_tokenizer", InSequence({SplitBy(kLlama3), byte_level})}},
      {{"normalizer", {{"type", "NFC"}}},
       {"pre_tokenizer", InSequence({SplitBy(kLlama3), byte_level})}},
      {{"normalizer", {{"type", "NFKC"}}}, {"pre_tokenizer", {{"type", "ByteLevel"}}}},
      {{"pre_tokenizer", InSequence({digits, cjk, rest, byte_level})}},
      {{"normalizer", prepended}, {"pre_tokenizer", nullptr}},
      {{"normalizer", replace}, {"pre_tokenizer", SplitBy("_", "MergedWithPrevious")}},
      {{"pre_tokenizer", Metaspace("always")}},
      {{"pre_tokenizer", Metaspace("first")}},
      {{"pre_tokenizer", SplitBy("(?<=a)b")}}};
  const absl::string_view parts[] = {"a",      "b",
                                     "s",      "re",
                                     "ll",     "'",
                                     "'s",     " ",
                                     "  ",     "\n",
                                     "\r\n",   "\t",
                                     "1",      "2345",
                                     "!",      "-",
                                     "<e>",    "<n>",
                                     "\u00e9", "e\u0301",
                                     "\u0301", "\u4e2d\u6587",
                                     "\u3002", "\u00a0",
                                     "\u0663", "\ufb01",
                                     "\xff",   "\xe4\xb8",
                                     "word",   " word",
                                     ". "};
  std::mt19937 random(51);
  std::vector<int64_t> inner(tokenizers.size());
  for (int round = 0; round < 400; ++round) {
    const size_t which = round % tokenizers.size();
    std::unique_ptr<CharacterPairs> pairs;
    if (tokenizers[which]["pre_tokenizer"].is_null()) {
      pairs = std::make_unique<CharacterPairs>();
      for (const char* token : {"ab", "word", "_word", "ll", "12", "\n\n"}) pairs->Add(token);
    }
    AddedToken normalized{2, "<n>"};
    normalized.normalized = true;
    AddedToken end{1, "<e>"};
    end.takes_left = round % 2 == 0;
    end.takes_right = round % 5 == 0;
    const auto divider = Make(tokenizers[which], {end, normalized}, std::move(pairs));
    std::string text;
    for (size_t i = random() % 60; i > 0; --i) {
      const absl::string_view part = parts[random() % std::size(parts)];
      text.append(part.data(), part.size());
    }
    for (const TextStart start : {TextStart::kText, TextStart::kWithin}) {
      const std::vector<std::string> whole = Pieces(*divider, text, start);
      for (size_t at = 0; at <= text.size(); ++at) {
        const size_t place = divider->SplitAfter(text, at);
        ASSERT_GE(place, at);
        ASSERT_LE(place, text.size());
        inner[which] += place < text.size() ? 1 : 0;
        std::vector<std::string> both =
            Pieces(*divider, absl::string_view(text).substr(0, place), start);
        for (std::string& piece :
             Pieces(*divider, absl::string_view(text).substr(place), TextStart::kWithin)) {
          both.push_back(std::move(piece));
        }
        ASSERT_EQ(both, whole) << "tokenizer " << which << " at " << at << ", " << place << " of "
                               << text;
      }
    }
  }
  for (size_t i = 0; i + 1 < inner.size(); ++i) EXPECT_GT(inner[i], 500) << "tokenizer " << i;
}

TEST(TextDividerTest, LongTextsAreDividedNearThePlace) {
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += "Some words, 123 of them.\n";
  const Json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  for (const Json& normalizer : {Json(), Json({{"type", "NFC"}})}) {
    const auto divider = Make({{"normalizer", normalizer},
                               {"pre_tokenizer", InSequence({SplitBy(kLlama3), byte_level})}});
    const size_t place = divider->SplitAfter(text, 250'000);
    EXPECT_GE(place, 250'000u);
    EXPECT_LT(place, 250'010u);
  }
}

}  // namespace
}  // namespace muster

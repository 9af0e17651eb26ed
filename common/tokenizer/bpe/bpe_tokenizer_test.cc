#include "common/tokenizer/bpe/bpe_tokenizer.h"

#include <algorithm>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "common/tokenizer/bpe/bpe_trainer.h"
#include "common/tokenizer/bpe/byte_tokenizer.h"
#include "common/tokenizer/decode_for_testing.h"
#include "common/tokenizer/words/text_divider.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// 256 bytes under their own numbers, then "ab", "abc", "bc", " a" and the end of text.
BpeVocabulary SmallVocabulary() {
  BpeVocabulary vocabulary = BytesAsVocabulary();
  for (const char* token : {"ab", "abc", "bc", " a", "<|endoftext|>"}) {
    vocabulary.tokens.emplace_back(token);
  }
  vocabulary.merges = {{'b', 'c'}, {'a', 'b'}, {256, 'c'}, {' ', 'a'}};
  vocabulary.added = {{260, "<|endoftext|>"}};
  return vocabulary;
}

std::unique_ptr<const BpeTokenizer> Make(BpeVocabulary vocabulary) {
  auto tokenizer = BpeTokenizer::Create(std::move(vocabulary));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

std::string Error(BpeVocabulary vocabulary) {
  return std::string(BpeTokenizer::Create(std::move(vocabulary)).status().message());
}

// The method as it is described: of all pairs the one learned first, again and again.
std::vector<int32_t> EncodeSlowly(const BpeVocabulary& vocabulary, absl::string_view text) {
  std::vector<int32_t> all;
  Gpt2Words()->ForEachPiece(text, TextStart::kText, [&](const TextDivider::Piece& piece) {
    const absl::string_view word = piece.text;
    std::vector<std::string> parts;
    for (const char byte : word) parts.emplace_back(1, byte);
    while (true) {
      size_t best_rank = vocabulary.merges.size();
      size_t best_place = 0;
      for (size_t i = 0; i + 1 < parts.size(); ++i) {
        for (size_t rank = 0; rank < best_rank; ++rank) {
          if (vocabulary.tokens[vocabulary.merges[rank].first] == parts[i] &&
              vocabulary.tokens[vocabulary.merges[rank].second] == parts[i + 1]) {
            best_rank = rank;
            best_place = i;
          }
        }
      }
      if (best_rank == vocabulary.merges.size()) break;
      parts[best_place] += parts[best_place + 1];
      parts.erase(parts.begin() + best_place + 1);
    }
    for (const std::string& part : parts) {
      const auto found = std::find(vocabulary.tokens.begin(), vocabulary.tokens.end(), part);
      all.push_back(static_cast<int32_t>(found - vocabulary.tokens.begin()));
    }
  });
  return all;
}

std::string RandomText(std::mt19937& random, const std::string& alphabet, size_t most) {
  std::string text(random() % most, '\0');
  for (char& byte : text) {
    byte = alphabet.empty() ? static_cast<char>(random()) : alphabet[random() % alphabet.size()];
  }
  return text;
}

TEST(BpeTokenizerTest, JoinsWhatWasLearnedFirst) {
  const auto tokenizer = Make(SmallVocabulary());
  EXPECT_EQ(tokenizer->vocabulary(), 261);
  EXPECT_EQ(tokenizer->end_of_text(), 260);
  // "bc" was learned before "ab", so "abc" never comes to be that way.
  EXPECT_THAT(EncodeAll(*tokenizer, "abc"), ElementsAre('a', 258));
  EXPECT_THAT(EncodeAll(*tokenizer, "ab a"), ElementsAre(256, 259));
  EXPECT_THAT(EncodeAll(*tokenizer, ""), ElementsAre());
  EXPECT_EQ(tokenizer->BytesOf(257), "abc");
}

TEST(BpeTokenizerTest, AddedTokensAreFoundAnywhere) {
  BpeVocabulary vocabulary = SmallVocabulary();
  vocabulary.tokens.push_back("<|end");
  vocabulary.added.push_back({261, "<|end"});
  const auto tokenizer = Make(std::move(vocabulary));
  EXPECT_THAT(EncodeAll(*tokenizer, "ab<|endoftext|>ab<|end|><|endoftext|>"),
              ElementsAre(256, 260, 256, 261, '|', '>', 260));
  EXPECT_THAT(EncodeAll(*tokenizer, "<|en"), ElementsAre('<', '|', 'e', 'n'));
}

TEST(BpeTokenizerTest, EncodesAsTheMethodIsDescribedAndBack) {
  std::mt19937 random(7);
  for (int round = 0; round < 30; ++round) {
    // Few letters make long chains of joins; all bytes, broken characters.
    const std::string alphabet = round % 3 == 0 ? "" : round % 3 == 1 ? "aab " : "abcde' 12\n";
    BpeTrainer trainer;
    for (int i = 0; i < 20; ++i) trainer.Add(RandomText(random, alphabet, 200));
    const auto vocabulary = trainer.Train(257 + random() % 80);
    ASSERT_TRUE(vocabulary.ok()) << vocabulary.status();
    const auto tokenizer = Make(*vocabulary);
    for (int i = 0; i < 20; ++i) {
      const std::string text = RandomText(random, alphabet, 120);
      const std::vector<int32_t> tokens = EncodeAll(*tokenizer, text);
      EXPECT_EQ(tokens, EncodeSlowly(*vocabulary, text));
      EXPECT_EQ(Decode(*tokenizer, tokens), text);
    }
    const std::string bytes = RandomText(random, "", 2000);
    EXPECT_EQ(Decode(*tokenizer, EncodeAll(*tokenizer, bytes)), bytes);
  }
}

// Texts of everything that words and added tokens depend on, divided wherever they may be.
TEST(BpeTokenizerTest, TextsAreDividedWhereTheTokensOfBothPartsAreTheWholes) {
  const absl::string_view pieces[] = {"a",
                                      "b",
                                      "s",
                                      "t",
                                      "re",
                                      "ve",
                                      "ll",
                                      "'",
                                      "'s",
                                      "'re",
                                      " ",
                                      "  ",
                                      "\n",
                                      "\t",
                                      "1",
                                      "23",
                                      "!",
                                      "-",
                                      "<|",
                                      "|>",
                                      "<|endoftext|>",
                                      "\u00e9",
                                      "\u4e2d\u6587",
                                      "\u3002",
                                      "\u00a0",
                                      "\u3000",
                                      "\u0663",
                                      "\xff",
                                      "\xe4\xb8",
                                      "\xad",
                                      "\xc3",
                                      "\xf0\x9f\x98\x80"};
  std::mt19937 random(51);
  const auto text_of = [&](size_t most) {
    std::string text;
    for (size_t i = random() % most; i > 0; --i) {
      const absl::string_view piece = pieces[random() % std::size(pieces)];
      text.append(piece.data(), piece.size());
    }
    return text;
  };
  int64_t inner = 0;
  for (int round = 0; round < 60; ++round) {
    BpeTrainer trainer;
    for (int i = 0; i < 20; ++i) trainer.Add(text_of(100));
    auto vocabulary = trainer.Train(257 + random() % 150);
    ASSERT_TRUE(vocabulary.ok()) << vocabulary.status();
    if (round % 2 == 0) {
      for (const char* content : {"a b", "s 1", "a ", " \xe4\xb8\xad", "\n\n", "!a"}) {
        if (absl::c_linear_search(vocabulary->tokens, content)) continue;
        vocabulary->added.push_back({static_cast<int32_t>(vocabulary->tokens.size()), content});
        vocabulary->tokens.emplace_back(content);
      }
    }
    const auto tokenizer = Make(*std::move(vocabulary));
    for (int i = 0; i < 20; ++i) {
      const std::string text = text_of(60);
      const std::vector<int32_t> whole = EncodeAll(*tokenizer, text);
      for (size_t at = 0; at <= text.size(); ++at) {
        const size_t place = tokenizer->SplitAfter(text, at);
        ASSERT_GE(place, at);
        ASSERT_LE(place, text.size());
        inner += place < text.size() && place == at ? 1 : 0;
        std::vector<int32_t> parts =
            EncodeAll(*tokenizer, absl::string_view(text).substr(0, place));
        for (const int32_t token : EncodeAll(*tokenizer, absl::string_view(text).substr(place))) {
          parts.push_back(token);
        }
        ASSERT_EQ(parts, whole) << "at " << place << " of " << text;
      }
    }
  }
  EXPECT_GT(inner, 5'000);
}

TEST(BpeTokenizerTest, LongTextsOfWordsAreDividedOften) {
  const auto tokenizer = Make(SmallVocabulary());
  EXPECT_EQ(tokenizer->SplitAfter("some words here", 6), 10u);
  EXPECT_EQ(tokenizer->SplitAfter("it's 12 o'clock", 3), 4u);
  EXPECT_EQ(tokenizer->SplitAfter("one  two", 4), 4u);
  EXPECT_EQ(tokenizer->SplitAfter("\u4e2d\u6587\u3002\u4e2d", 1), 6u);
  EXPECT_EQ(tokenizer->SplitAfter("ab<|endoftext|> ab", 3), 15u);
  EXPECT_EQ(ByteTokenizer().SplitAfter("ab", 1), 1u);
}

TEST(BpeTokenizerTest, LongTextsComeInPiecesAndLongWordsInTime) {
  const auto tokenizer = Make(SmallVocabulary());
  std::string text;
  for (int i = 0; i < 20000; ++i) text += i % 7 == 0 ? "abc " : " ab";
  int pieces = 0;
  std::vector<int32_t> tokens;
  tokenizer->Encode(text, TextStart::kText, [&](absl::Span<const int32_t> part) {
    ++pieces;
    tokens.insert(tokens.end(), part.begin(), part.end());
  });
  EXPECT_GT(pieces, 2);
  EXPECT_EQ(Decode(*tokenizer, tokens), text);
  // One word of a million bytes; a method that looks at all pairs for each join would not end.
  std::string word;
  for (int i = 0; i < 500000; ++i) word += "ab";
  EXPECT_EQ(EncodeAll(*tokenizer, word), std::vector<int32_t>(500000, 256));
}

TEST(BpeTokenizerTest, RefusesWhatCouldNotEncodeEverything) {
  BpeVocabulary vocabulary = SmallVocabulary();
  vocabulary.tokens[200] = "ba";
  EXPECT_THAT(Error(vocabulary), HasSubstr("no token for the byte 200"));
  vocabulary = SmallVocabulary();
  vocabulary.tokens[257] = "ab";
  EXPECT_THAT(Error(vocabulary), HasSubstr("tokens 256 and 257 are the same text"));
  vocabulary = SmallVocabulary();
  vocabulary.merges.push_back({'x', 'y'});
  EXPECT_THAT(Error(vocabulary), HasSubstr("merge 4 makes a text of 2 characters"));
  vocabulary.merges.back() = {'x', 999};
  EXPECT_THAT(Error(vocabulary), HasSubstr("merge 4 joins tokens 120 and 999"));
  vocabulary = SmallVocabulary();
  vocabulary.added.push_back({300, "x"});
  EXPECT_THAT(Error(vocabulary),
              HasSubstr("added token 300 is a text of 1 character, expected the one"));
  // As files write the space.
  vocabulary = SmallVocabulary();
  vocabulary.tokens.push_back("\u0120");
  vocabulary.added.push_back({261, "\u0120"});
  EXPECT_THAT(Error(vocabulary),
              HasSubstr("added token 261 is a text of 1 character, which is how a "
                        "tokenizer.json writes token 32"));
}

TEST(ByteTokenizerTest, EveryByteIsItsToken) {
  const ByteTokenizer tokenizer;
  std::mt19937 random(1);
  const std::string text = RandomText(random, "", 20000);
  const std::vector<int32_t> tokens = EncodeAll(tokenizer, text);
  ASSERT_EQ(tokens.size(), text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    EXPECT_EQ(tokens[i], static_cast<unsigned char>(text[i]));
  }
  EXPECT_EQ(Decode(tokenizer, tokens), text);
  EXPECT_EQ(tokenizer.end_of_text(), std::nullopt);
  EXPECT_EQ(tokenizer.json(), "");
}

TEST(ByteTokenizerTest, IsAVocabularyWithoutMerges) {
  const auto tokenizer = Make(BytesAsVocabulary());
  std::mt19937 random(2);
  const std::string text = RandomText(random, "", 3000);
  EXPECT_EQ(EncodeAll(*tokenizer, text), EncodeAll(ByteTokenizer(), text));
  EXPECT_EQ(tokenizer->fingerprint(), ByteTokenizer().fingerprint());
}

TEST(BpeTokenizerTest, TheFingerprintTellsWhatEncodesOtherwise) {
  const BpeVocabulary vocabulary = SmallVocabulary();
  const uint64_t fingerprint = Make(vocabulary)->fingerprint();
  // Stored beside weights.
  EXPECT_EQ(fingerprint, 8675816493977250857u);
  EXPECT_EQ(ByteTokenizer().fingerprint(), 14882644519709251074u);
  BpeVocabulary other = vocabulary;
  std::swap(other.tokens[256], other.tokens[258]);
  other.merges = {};
  EXPECT_NE(Make(other)->fingerprint(), fingerprint);
  other = vocabulary;
  std::swap(other.merges[0], other.merges[1]);
  EXPECT_NE(Make(other)->fingerprint(), fingerprint);
  other = vocabulary;
  other.added = {};
  EXPECT_NE(Make(other)->fingerprint(), fingerprint);
  other.added = {{257, "abc"}, {260, "<|endoftext|>"}};
  const uint64_t two = Make(other)->fingerprint();
  std::swap(other.added[0], other.added[1]);
  EXPECT_EQ(Make(other)->fingerprint(), two);
}

}  // namespace
}  // namespace muster

#include "common/tokenizer/sentencepiece/sentencepiece_file.h"

#include <limits>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "common/tokenizer/sentencepiece/sentencepiece_model.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// "<unk>" 0, "<s>" 1, "foo" 2 (found in texts), then what words are made of, best score first.
sentencepiece::Model Pieces(sentencepiece::ModelType type) {
  sentencepiece::Model model;
  model.mutable_trainer()->set_model_type(type);
  const auto add = [&](const char* text, float score, sentencepiece::PieceType piece_type) {
    sentencepiece::Piece& piece = *model.add_pieces();
    piece.set_piece(text);
    piece.set_score(score);
    if (piece_type != sentencepiece::NORMAL) piece.set_type(piece_type);
  };
  add("<unk>", 0, sentencepiece::UNKNOWN);
  add("<s>", 0, sentencepiece::CONTROL);
  add("foo", 0, sentencepiece::USER_DEFINED);
  float score = 0;
  for (const char* text : {"bc", "ab", "abc", "\u2581abc", "a", "b", "c", "\u2581"}) {
    add(text, --score, sentencepiece::NORMAL);
  }
  return model;
}

std::unique_ptr<const Tokenizer> Open(const sentencepiece::Model& model) {
  auto parsed = ParseSentencepieceFile(model.SerializeAsString(), "t.model");
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  if (auto* bpe = std::get_if<BpeVocabulary>(&*parsed)) {
    return *BpeTokenizer::Create(std::move(*bpe));
  }
  return *UnigramTokenizer::Create(std::get<UnigramVocabulary>(*std::move(parsed)));
}

std::string Error(const sentencepiece::Model& model) {
  return std::string(
      ParseSentencepieceFile(model.SerializeAsString(), "t.model").status().message());
}

TEST(SentencepieceFileTest, PairsThatMakeAPieceAreMergesByScore) {
  const auto tokenizer = Open(Pieces(sentencepiece::BPE));
  // "bc" comes before "ab", and "abc" is made of "a" and "bc".
  EXPECT_THAT(EncodeAll(*tokenizer, "abc"), ElementsAre(6));
  EXPECT_THAT(EncodeAll(*tokenizer, " ab  foo bc"), ElementsAre(10, 4, 10, 2, 10, 3));
  EXPECT_THAT(EncodeAll(*tokenizer, "<s>xyz"), ElementsAre(1, 10, 0));
  EXPECT_EQ(tokenizer->BytesOf(6), " abc");
}

TEST(SentencepieceFileTest, UnigramTakesTheBestSum) {
  sentencepiece::Model model = Pieces(sentencepiece::UNIGRAM);
  model.mutable_trainer()->clear_model_type();
  const auto tokenizer = Open(model);
  EXPECT_THAT(EncodeAll(*tokenizer, "abc"), ElementsAre(6));
  // "ab" and "c" have -2 and -7, "a" and "bc" -5 and -1, all of it -3.
  model.mutable_pieces(5)->set_score(-7);
  model.mutable_pieces(6)->set_score(-90);
  EXPECT_THAT(EncodeAll(*Open(model), "abc"), ElementsAre(10, 7, 3));
  EXPECT_THAT(EncodeAll(*tokenizer, "\u4e2d\u6587a"), ElementsAre(10, 0, 7));
}

TEST(SentencepieceFileTest, CharactersThatAreNoPieceMayBecomeBytes) {
  for (const auto type : {sentencepiece::BPE, sentencepiece::UNIGRAM}) {
    sentencepiece::Model model = Pieces(type);
    model.mutable_trainer()->set_byte_fallback(true);
    for (int byte = 0; byte < 256; ++byte) {
      sentencepiece::Piece& piece = *model.add_pieces();
      constexpr char kDigits[] = "0123456789ABCDEF";
      piece.set_piece(std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">");
      piece.set_type(sentencepiece::BYTE);
    }
    const auto tokenizer = Open(model);
    EXPECT_THAT(EncodeAll(*tokenizer, "a\u00e9"), ElementsAre(10, 7, 11 + 0xc3, 11 + 0xa9));
    EXPECT_EQ(tokenizer->BytesOf(11 + 0xc3), "\xc3");
  }
}

TEST(SentencepieceFileTest, SpacesAreTreatedAsTheFileSays) {
  sentencepiece::Model model = Pieces(sentencepiece::BPE);
  EXPECT_THAT(EncodeAll(*Open(model), "  a   b "), ElementsAre(10, 7, 10, 8));
  model.mutable_normalizer()->set_remove_extra_whitespaces(false);
  EXPECT_THAT(EncodeAll(*Open(model), "  a"), ElementsAre(10, 10, 10, 7));
  model.mutable_normalizer()->set_add_dummy_prefix(false);
  EXPECT_THAT(EncodeAll(*Open(model), "a b"), ElementsAre(7, 10, 8));
}

TEST(SentencepieceFileTest, WhatIsNotUnderstoodIsRefused) {
  EXPECT_THAT(std::string(ParseSentencepieceFile("\xff\xff", "t.model").status().message()),
              HasSubstr("t.model: the file is no message of SentencePiece's"));
  EXPECT_THAT(Error({}), HasSubstr("no pieces"));
  sentencepiece::Model model = Pieces(sentencepiece::WORD);
  EXPECT_THAT(Error(model), HasSubstr("model_type is neither BPE nor UNIGRAM"));
  model = Pieces(sentencepiece::BPE);
  model.mutable_trainer()->set_treat_whitespace_as_suffix(true);
  EXPECT_THAT(Error(model), HasSubstr("treat_whitespace_as_suffix is true"));
  model = Pieces(sentencepiece::BPE);
  model.mutable_normalizer()->set_escape_whitespaces(false);
  EXPECT_THAT(Error(model), HasSubstr("escape_whitespaces is false"));
  model = Pieces(sentencepiece::BPE);
  model.mutable_pieces(4)->set_score(std::numeric_limits<float>::quiet_NaN());
  EXPECT_THAT(Error(model), HasSubstr("piece 4 has no finite score"));
  model.mutable_pieces(4)->set_piece("\xff");
  EXPECT_THAT(Error(model), HasSubstr("piece 4 is empty or not UTF-8"));
}

}  // namespace
}  // namespace muster

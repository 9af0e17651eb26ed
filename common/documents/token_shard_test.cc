#include "common/documents/token_shard.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/temp_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
std::string Packed(const std::vector<T>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)};
}

// As write_datafile of llm.c writes them.
template <typename T>
std::string LlmC(uint32_t magic, int32_t version, const std::vector<T>& tokens) {
  std::vector<int32_t> header(256);
  header[0] = static_cast<int32_t>(magic);
  header[1] = version;
  header[2] = static_cast<int32_t>(tokens.size());
  return Packed(header) + Packed(tokens);
}

// As numpy.save writes an array, in version 1 or 2.
std::string Numpy(const std::string& header, const std::string& numbers, char version = 1) {
  std::string padded = header;
  const size_t start = version == 1 ? 10 : 12;
  while ((start + padded.size() + 1) % 64 != 0) padded += ' ';
  padded += '\n';
  const auto size = static_cast<uint32_t>(padded.size());
  std::string length(version == 1 ? 2 : 4, '\0');
  memcpy(length.data(), &size, length.size());
  return absl::StrCat("\x93NUMPY", std::string(1, version), std::string(1, '\0'), length, padded,
                      numbers);
}

// As Megatron's IndexedDatasetBuilder writes an index.
std::string MegatronIndexOf(uint8_t type, int64_t width, const std::vector<int32_t>& sizes,
                            const std::vector<int64_t>& documents) {
  std::vector<int64_t> places;
  int64_t place = 0;
  for (const int32_t size : sizes) {
    places.push_back(place);
    place += size * width;
  }
  return absl::StrCat(std::string("MMIDIDX\0\0", 9), Packed<uint64_t>({1}), Packed<uint8_t>({type}),
                      Packed<uint64_t>({sizes.size(), documents.size()}), Packed(sizes),
                      Packed(places), Packed(documents));
}

class TokenShardTest : public testing::Test {
 protected:
  TokenShardTest() {
    rules_.vocabulary = 1000;
    rules_.end_of_text = 0;
  }

  // Takes documents as texts such as "1 2 0"; the error comes last.
  TakeDocument Take() { return take_; }

  std::vector<std::string> Taken(const absl::Status& status) {
    if (!status.ok()) documents_.emplace_back(status.message());
    return std::exchange(documents_, {});
  }

  using RowOf = absl::StatusOr<TokenRow> (*)(WindowedFile&);
  std::vector<std::string> Row(const std::string& bytes, RowOf row_of) {
    const auto file = WindowedFile::Open(folder_.Write("shard.bin", bytes));
    EXPECT_TRUE(file.ok()) << file.status();
    const auto row = row_of(**file);
    if (!row.ok()) return {std::string(row.status().message())};
    return Taken(ForEachInRow(**file, *row, rules_, take_));
  }

  std::vector<std::string> Megatron(const std::string& index, const std::string& tokens) {
    const std::string bin = folder_.Write("m.bin", tokens);
    return Taken(ForEachInMegatron(folder_.Write("m.idx", index), bin, rules_, take_));
  }

  static absl::StatusOr<TokenRow> Raw(WindowedFile& file) { return RawRow(file, {2, false}); }

  const TempFolder folder_;
  TokenRules rules_;
  std::vector<std::string> documents_;
  std::string begun_;
  const std::function<absl::Status(const Document&)> take_ = [this](const Document& document) {
    EXPECT_TRUE(document.parts.empty());
    for (const int32_t token : document.tokens) {
      absl::StrAppend(&begun_, begun_.empty() ? "" : " ", token);
    }
    if (!document.continues) documents_.push_back(std::exchange(begun_, ""));
    return absl::OkStatus();
  };
};

TEST_F(TokenShardTest, ShardsOfLlmC) {
  EXPECT_THAT(Row(LlmC<uint16_t>(20240520, 1, {0, 5, 6, 0, 999}), LlmCRow),
              ElementsAre("0", "5 6 0", "999"));
  EXPECT_THAT(Row(LlmC<uint32_t>(20240801, 7, {5, 0}), LlmCRow), ElementsAre("5 0"));
  EXPECT_THAT(Row(LlmC<uint16_t>(20240520, 1, {}), LlmCRow), ElementsAre());
}

TEST_F(TokenShardTest, ShardsOfLlmCThatAreDamagedAreNamed) {
  const std::string good = LlmC<uint16_t>(20240520, 1, {1, 2, 3});
  EXPECT_THAT(Row(good.substr(0, 1000), LlmCRow)[0], HasSubstr("ends at byte 1000, within"));
  EXPECT_THAT(
      Row(good.substr(0, good.size() - 1), LlmCRow)[0],
      HasSubstr("tells of 3 tokens of 2 bytes from byte 1024 on, but the file has 5 bytes"));
  EXPECT_THAT(Row(good + "x", LlmCRow)[0], HasSubstr("has 7 bytes there"));
  EXPECT_THAT(Row(LlmC<uint16_t>(20240520, 7, {1}), LlmCRow)[0],
              HasSubstr("has version 7 at byte 4, expected 1"));
  EXPECT_THAT(Row(LlmC<uint16_t>(20240522, 1, {1}), LlmCRow)[0], HasSubstr("multiple-choice"));
  std::string negative = good;
  negative[11] = '\xff';
  EXPECT_THAT(Row(negative, LlmCRow)[0], HasSubstr("tokens at byte 8; its header is damaged"));
  EXPECT_THAT(Row(LlmC<uint16_t>(20240520, 1, {1, 1000}), LlmCRow).back(),
              HasSubstr("the token at byte 1026 is 1000, but the tokenizer has 1000 tokens"));
}

TEST_F(TokenShardTest, RawTokensOfNanoGpt) {
  EXPECT_THAT(Row(Packed<uint16_t>({1, 2, 0, 3}), Raw), ElementsAre("1 2 0", "3"));
  EXPECT_THAT(Row("abc", Raw)[0], HasSubstr("has 3 bytes, which are no whole number of tokens of "
                                            "type u16"));
  // Documents that are larger than what is read at once.
  std::vector<uint16_t> many(600'000, 7);
  many[299'999] = 0;
  const auto documents = Row(Packed(many), Raw);
  ASSERT_EQ(documents.size(), 2u);
  EXPECT_EQ(documents[0].size(), 599'999u);
  EXPECT_EQ(documents[1].size(), 599'999u);
  rules_.end_of_text.reset();
  EXPECT_THAT(Row(Packed<uint16_t>({1, 0, 3}), Raw), ElementsAre("1 0 3"));
}

TEST_F(TokenShardTest, ArraysOfNumpyOfEveryType) {
  const auto array = [](const std::string& type, const std::string& numbers) {
    return Numpy(absl::StrCat("{'descr': '", type, "', 'fortran_order': False, 'shape': (3,), }"),
                 numbers);
  };
  const auto expected = ElementsAre("1 0", "9");
  EXPECT_THAT(Row(array("|u1", Packed<uint8_t>({1, 0, 9})), NumpyRow), expected);
  EXPECT_THAT(Row(array("<u2", Packed<uint16_t>({1, 0, 9})), NumpyRow), expected);
  EXPECT_THAT(Row(array("<i4", Packed<int32_t>({1, 0, 9})), NumpyRow), expected);
  EXPECT_THAT(Row(array("<u4", Packed<uint32_t>({1, 0, 9})), NumpyRow), expected);
  EXPECT_THAT(Row(array("<i8", Packed<int64_t>({1, 0, 9})), NumpyRow), expected);
  EXPECT_THAT(Row(Numpy("{\"shape\":(3),\"descr\":\"<u2\",\"fortran_order\":True}",
                        Packed<uint16_t>({1, 0, 9}), 2),
                  NumpyRow),
              expected);
  EXPECT_THAT(Row(array("<i4", Packed<int32_t>({1, -1, 9})), NumpyRow).back(),
              HasSubstr("the token at byte 132 is -1"));
}

TEST_F(TokenShardTest, ArraysOfNumpyThatAreNoTokensAreNamed) {
  const std::string two = Packed<uint16_t>({1, 2});
  const auto refusal = [&](const std::string& header) {
    return Row(Numpy(header, two), NumpyRow)[0];
  };
  EXPECT_THAT(refusal("{'descr': '>u2', 'fortran_order': False, 'shape': (2,), }"),
              HasSubstr("numbers of type '>u2'; expected whole numbers, little-endian"));
  EXPECT_THAT(refusal("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }"),
              HasSubstr("numbers of type '<f4'"));
  EXPECT_THAT(refusal("{'descr': [('a', '<u2')], 'fortran_order': False, 'shape': (2,), }"),
              HasSubstr("not of records"));
  EXPECT_THAT(refusal("{'descr': '<u2', 'fortran_order': False, 'shape': (1, 2), }"),
              HasSubstr("has 2 dimensions, expected 1"));
  EXPECT_THAT(refusal("{'descr': '<u2', 'fortran_order': False, 'shape': (3,), }"),
              HasSubstr("tells of 3 tokens of 2 bytes from byte 128 on, but the file has 4"));
  EXPECT_THAT(refusal("{'descr': '<u2', 'fortran_order': False, 'shape': "
                      "(99999999999999999999,), }"),
              HasSubstr("expected a shape"));
  EXPECT_THAT(refusal("{'descr': '<u2'"), HasSubstr("expected a comma or the end"));
  EXPECT_THAT(refusal("{'descr': '<u2'}"), HasSubstr("expected descr and shape"));
  EXPECT_THAT(refusal("{'x': '<u2'}"), HasSubstr("unknown name 'x'"));
  EXPECT_THAT(refusal("import os"), HasSubstr("expected a dictionary"));
  const std::string good = Numpy("{'descr': '<u2', 'shape': (2,), }", two);
  for (const size_t size : {size_t{6}, size_t{11}, size_t{60}}) {
    EXPECT_THAT(Row(good.substr(0, size), NumpyRow)[0],
                HasSubstr(absl::StrCat("ends at byte ", size, ", within")));
  }
  EXPECT_THAT(Row(Numpy("{}", "", 4), NumpyRow)[0], HasSubstr("has version 4 at byte 6"));
  EXPECT_THAT(Row(std::string("\x93NUMPY\2\0\xff\xff\xff\xff", 12), NumpyRow)[0],
              HasSubstr("has a header of 4294967295 bytes"));
}

TEST_F(TokenShardTest, DocumentsOfMegatron) {
  EXPECT_THAT(Megatron(MegatronIndexOf(8, 2, {2, 1, 3}, {0, 1, 1, 3}),
                       Packed<uint16_t>({1, 2, 3, 4, 0, 6})),
              ElementsAre("1 2", "", "3 4 0 6"));
  EXPECT_THAT(Megatron(MegatronIndexOf(4, 4, {2}, {0, 1}), Packed<int32_t>({1, 999})),
              ElementsAre("1 999"));
  const std::vector<int32_t> many(700'000, 5);
  const auto documents =
      Megatron(MegatronIndexOf(4, 4, {300'000, 400'000}, {0, 1, 2}), Packed(many));
  ASSERT_EQ(documents.size(), 2u);
  EXPECT_EQ(documents[1].size(), 799'999u);
}

TEST_F(TokenShardTest, IndicesOfMegatronThatLieAreNamed) {
  const std::string tokens = Packed<uint16_t>({1, 2, 3});
  const std::string good = MegatronIndexOf(8, 2, {2, 1}, {0, 1, 2});
  EXPECT_THAT(Megatron(good, tokens), ElementsAre("1 2", "3"));
  const auto refusal = [&](const std::string& index) { return Megatron(index, tokens).back(); };
  EXPECT_THAT(refusal(good.substr(0, 20)), HasSubstr("m.idx: the index ends within its header"));
  EXPECT_THAT(refusal(good.substr(0, good.size() - 1)), HasSubstr("do not fit the 2 sequences"));
  EXPECT_THAT(refusal(good + std::string(2, '\0')), HasSubstr("modes of several media"));
  EXPECT_THAT(refusal(MegatronIndexOf(7, 2, {2, 1}, {0, 1, 2})),
              HasSubstr("has type 7 at byte 17"));
  EXPECT_THAT(refusal(MegatronIndexOf(8, 2, {2, 1}, {1, 2})), HasSubstr("begins at sequence 1"));
  EXPECT_THAT(refusal(MegatronIndexOf(8, 2, {2, 1}, {0, 3})),
              HasSubstr("document 0 ends at sequence 3, expected 0 to 2"));
  EXPECT_THAT(refusal(MegatronIndexOf(8, 2, {2, 1}, {0, 2, 1})),
              HasSubstr("document 1 ends at sequence 1, expected 2 to 2"));
  EXPECT_THAT(refusal(MegatronIndexOf(8, 2, {2, 1}, {0, 1})), HasSubstr("end at sequence 1"));
  EXPECT_THAT(refusal(MegatronIndexOf(8, 2, {2, 2}, {0, 2})),
              HasSubstr("sequence 1 has 2 tokens at byte 4"));
  EXPECT_THAT(refusal(MegatronIndexOf(8, 2, {2}, {0, 1})),
              HasSubstr("m.bin: the file has 6 bytes"));
  EXPECT_THAT(refusal(MegatronIndexOf(8, 2, {-1, 2}, {0, 2})), HasSubstr("sequence 0 has -1"));
  // Each sequence once more, from the beginning.
  EXPECT_THAT(refusal(MegatronIndexOf(8, 0, {3, 3}, {0, 2})),
              HasSubstr("sequence 1 has 3 tokens at byte 0 of"));
  std::string version = good;
  version[9] = 2;
  EXPECT_THAT(refusal(version), HasSubstr("has version 2 at byte 9, expected 1"));
  // Numbers that overflow when they are multiplied.
  std::string huge = good;
  memset(&huge[18], 0x7f, 16);
  EXPECT_THAT(refusal(huge), HasSubstr("do not fit"));
}

TEST(TokenTypeTest, Names) {
  EXPECT_EQ(NameOf(*TokenTypeNamed("u16")), "u16");
  EXPECT_EQ(NameOf(*TokenTypeNamed("i64")), "i64");
  EXPECT_FALSE(TokenTypeNamed("f32").has_value());
  EXPECT_FALSE(TokenTypeNamed("").has_value());
}

}  // namespace
}  // namespace muster

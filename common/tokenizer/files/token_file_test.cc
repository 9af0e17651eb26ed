#include "common/tokenizer/files/token_file.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/fingerprint.h"
#include "common/files/bytes_of_file.h"
#include "common/files/temp_folder.h"
#include "common/tokenizer/bpe/bpe_tokenizer.h"
#include "common/tokenizer/bpe/bpe_trainer.h"
#include "common/tokenizer/bpe/byte_tokenizer.h"
#include "common/tokenizer/decode_for_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace {

// What was flushed, in order: the path, and what was in its folder then if it is one.
std::vector<std::pair<std::string, std::vector<std::string>>>& Flushed() {
  static auto* const flushed = new std::vector<std::pair<std::string, std::vector<std::string>>>;
  return *flushed;
}

}  // namespace

// In place of the C library's.
extern "C" int fsync(int fd) {
  const std::string path = std::filesystem::read_symlink(absl::StrCat("/proc/self/fd/", fd));
  std::vector<std::string> names;
  if (std::filesystem::is_directory(path)) {
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      names.push_back(entry.path().filename());
    }
  }
  Flushed().emplace_back(path, std::move(names));
  return static_cast<int>(syscall(SYS_fsync, fd));
}

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class TokenFileTest : public testing::Test {
 protected:
  std::string PathOf(const std::string& name) const {
    return absl::StrCat(folder_.path(), "/", name);
  }

  std::string Write(const Tokenizer& tokenizer, const std::vector<std::string>& documents) const {
    auto writer = TokenFileWriter::Create(PathOf("t.tokens"), tokenizer, Replace::kFiles);
    EXPECT_TRUE(writer.ok()) << writer.status();
    for (const std::string& document : documents) {
      EXPECT_TRUE((*writer)->AddDocument(document).ok());
    }
    const auto summary = (*writer)->Finish();
    EXPECT_TRUE(summary.ok()) << summary.status();
    return PathOf("t.tokens");
  }

  // What opening and reading all of a file of these bytes says.
  absl::Status StatusOf(const std::string& bytes) const {
    const auto file = TokenFile::Open(folder_.Write("changed", bytes));
    if (!file.ok()) return file.status();
    std::vector<int32_t> tokens;
    std::vector<uint8_t> trained;
    const absl::Status status = (*file)->Read(0, (*file)->tokens(), tokens);
    return status.ok() ? (*file)->ReadTrained(0, (*file)->tokens(), trained) : status;
  }

  // The bytes of a file of two documents, where some tokens are not to be learned.
  std::string WithUntrained() const {
    const ByteTokenizer tokenizer;
    auto writer = TokenFileWriter::Create(PathOf("t.tokens"), tokenizer, Replace::kFiles);
    EXPECT_TRUE(writer.ok()) << writer.status();
    EXPECT_TRUE((*writer)->AddTokens({1, 2, 3}, Trained::kNo, 3).ok());
    EXPECT_TRUE((*writer)->AddTokens({4, 5, 6, 7, 8, 9}, Trained::kYes, 6).ok());
    EXPECT_TRUE((*writer)->EndDocument().ok());
    EXPECT_TRUE((*writer)->AddTokens({10, 11, 12}, Trained::kYes, 3).ok());
    EXPECT_TRUE((*writer)->Finish().ok());
    return BytesOfFile(PathOf("t.tokens"));
  }

  const TempFolder folder_;
};

std::unique_ptr<const BpeTokenizer> Learned(int64_t vocabulary) {
  BpeTrainer trainer;
  for (int i = 0; i < 300; ++i) trainer.Add(absl::StrCat(i * 7919, " word", i, " again", i));
  return *BpeTokenizer::Create(*trainer.Train(vocabulary));
}

TEST_F(TokenFileTest, HoldsTokensTokenizerAndSourceBytes) {
  const auto learned = Learned(400);
  const std::string path = Write(*learned, {"word1 again", "word2", "12 word"});
  const auto file = TokenFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<int32_t> expected = EncodeAll(*learned, "word1 again");
  for (const char* document : {"word2", "12 word"}) {
    expected.push_back(*learned->end_of_text());
    for (const int32_t token : EncodeAll(*learned, document)) expected.push_back(token);
  }
  ASSERT_EQ((*file)->tokens(), expected.size());
  EXPECT_EQ((*file)->source_bytes(), 23u);
  EXPECT_EQ((*file)->tokenizer().json(), learned->json());
  std::vector<int32_t> tokens;
  ASSERT_TRUE((*file)->Read(0, expected.size(), tokens).ok());
  EXPECT_EQ(tokens, expected);
  tokens.clear();
  ASSERT_TRUE((*file)->Read(2, 3, tokens).ok());
  EXPECT_EQ(tokens, std::vector<int32_t>(expected.begin() + 2, expected.begin() + 5));
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
}

TEST_F(TokenFileTest, TextsAreDocumentsWithTheirEnds) {
  const auto learned = Learned(400);
  const auto file = TokenFile::Open(Write(*learned, {"word1 again", "word2", "12 word"}));
  ASSERT_TRUE(file.ok()) << file.status();
  const uint64_t first = EncodeAll(*learned, "word1 again").size() + 1;
  const uint64_t second = first + EncodeAll(*learned, "word2").size() + 1;
  EXPECT_THAT((*file)->document_ends(), ElementsAre(first, second, (*file)->tokens()));
  EXPECT_FALSE((*file)->has_trained_bits());
  std::vector<uint8_t> trained;
  ASSERT_TRUE((*file)->ReadTrained(1, 2, trained).ok());
  EXPECT_THAT(trained, ElementsAre(1, 1));
  // Without an end-of-text, too.
  const auto bytes = TokenFile::Open(Write(ByteTokenizer(), {"abc", "de"}));
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_THAT((*bytes)->document_ends(), ElementsAre(3, 5));
  const uint64_t fingerprint = (*bytes)->fingerprint();
  const auto otherwise = TokenFile::Open(Write(ByteTokenizer(), {"ab", "cde"}));
  ASSERT_TRUE(otherwise.ok()) << otherwise.status();
  EXPECT_EQ((*otherwise)->fingerprint(), fingerprint);
  EXPECT_NE((*otherwise)->documents_fingerprint(), (*bytes)->documents_fingerprint());
}

TEST_F(TokenFileTest, TokensAreLearnedOrNot) {
  const std::string bytes = WithUntrained();
  const auto file = TokenFile::Open(PathOf("t.tokens"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->source_bytes(), 12u);
  EXPECT_THAT((*file)->document_ends(), ElementsAre(9, 12));
  EXPECT_TRUE((*file)->has_trained_bits());
  std::vector<int32_t> tokens;
  ASSERT_TRUE((*file)->Read(0, 12, tokens).ok());
  EXPECT_THAT(tokens, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
  std::vector<uint8_t> trained;
  ASSERT_TRUE((*file)->ReadTrained(0, 12, trained).ok());
  EXPECT_THAT(trained, ElementsAre(0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1));
  trained.clear();
  ASSERT_TRUE((*file)->ReadTrained(2, 2, trained).ok());
  EXPECT_THAT(trained, ElementsAre(0, 1));
  // The bits are part of the data.
  const uint64_t fingerprint = (*file)->fingerprint();
  const auto all = TokenFile::Open(Write(ByteTokenizer(), {"\1\2\3\4\5\6\7\10\11\12\13\14"}));
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ((*all)->tokens(), 12u);
  EXPECT_NE((*all)->fingerprint(), fingerprint);
}

TEST_F(TokenFileTest, TextsAndTokensFollowOneAnother) {
  const auto learned = Learned(400);
  const int32_t end = *learned->end_of_text();
  auto writer = TokenFileWriter::Create(PathOf("t.tokens"), *learned);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->AddTokens({1, 2}, Trained::kNo, 2).ok());
  ASSERT_TRUE((*writer)->AddDocument("a").ok());
  ASSERT_TRUE((*writer)->EndDocument().ok());
  ASSERT_TRUE((*writer)->AddTokens({}, Trained::kNo, 0).ok());
  ASSERT_TRUE((*writer)->AddTokens({3, 4}, Trained::kYes, 2).ok());
  ASSERT_TRUE((*writer)->EndDocument().ok());
  ASSERT_TRUE((*writer)->EndDocument().ok());
  const auto summary = (*writer)->Finish();
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->documents, 3u);
  EXPECT_EQ(summary->trained_tokens, 4u);
  const auto file = TokenFile::Open(PathOf("t.tokens"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT((*file)->document_ends(), ElementsAre(2, 4, 6));
  std::vector<int32_t> tokens;
  ASSERT_TRUE((*file)->Read(0, 6, tokens).ok());
  EXPECT_THAT(tokens, ElementsAre(1, 2, EncodeAll(*learned, "a")[0], end, 3, 4));
}

// A file as it was written before documents: nothing follows the tokens' checksums.
TEST_F(TokenFileTest, VersionOneIsReadAsBefore) {
  const auto learned = Learned(400);
  const std::string now = BytesOfFile(Write(*learned, {"word1 again", "word2"}));
  const auto file = TokenFile::Open(PathOf("t.tokens"));
  ASSERT_TRUE(file.ok()) << file.status();
  std::string before = now.substr(0, now.size() - 2 * 8);
  before[8] = 1;
  std::fill(before.begin() + 56, before.begin() + 120, '\0');
  const uint64_t checksum = Fingerprint(absl::string_view(before).substr(0, 120));
  memcpy(&before[120], &checksum, 8);
  const auto old = TokenFile::Open(folder_.Write("old.tokens", before));
  ASSERT_TRUE(old.ok()) << old.status();
  EXPECT_EQ((*old)->fingerprint(), (*file)->fingerprint());
  EXPECT_EQ((*old)->documents_fingerprint(), 0u);
  EXPECT_TRUE((*old)->document_ends().empty());
  EXPECT_FALSE((*old)->has_trained_bits());
  ASSERT_EQ((*old)->tokens(), (*file)->tokens());
  std::vector<int32_t> of_old;
  std::vector<int32_t> of_new;
  ASSERT_TRUE((*old)->Read(0, (*old)->tokens(), of_old).ok());
  ASSERT_TRUE((*file)->Read(0, (*file)->tokens(), of_new).ok());
  EXPECT_EQ(of_old, of_new);
}

// Large enough to be mapped (common/files/file_content.h).
TEST_F(TokenFileTest, OfMoreThanAreCopied) {
  const ByteTokenizer tokenizer;
  std::string text(size_t{65} << 20, 'a');
  text.front() = 'b';
  text.back() = 'c';
  const std::string path = Write(tokenizer, {text});
  const auto file = TokenFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ((*file)->tokens(), text.size());
  for (const uint64_t first : {uint64_t{0}, uint64_t{33} << 20, text.size() - 3}) {
    std::vector<int32_t> tokens;
    ASSERT_TRUE((*file)->Read(first, 3, tokens).ok());
    EXPECT_EQ(Decode(tokenizer, tokens), text.substr(first, 3));
  }
  // A chunk is looked at when it is first read, out of the file itself: tokens begin behind a
  // header.
  std::fstream changed(path, std::ios::binary | std::ios::in | std::ios::out);
  changed.seekp(std::streamoff{50} << 20);
  changed.put('x');
  changed.close();
  std::vector<int32_t> tokens;
  EXPECT_EQ((*file)->Read(uint64_t{49} << 20, 2 << 20, tokens).code(), absl::StatusCode::kDataLoss);
}

TEST_F(TokenFileTest, EveryWidthAndManyChunks) {
  std::mt19937 random(5);
  std::string text(3 << 20, '\0');
  for (char& byte : text) byte = static_cast<char>(random());
  for (const int64_t vocabulary : {256, 300}) {
    const auto learned = Learned(vocabulary == 256 ? 257 : vocabulary);
    const ByteTokenizer bytes;
    const Tokenizer& tokenizer =
        vocabulary == 256 ? static_cast<const Tokenizer&>(bytes) : *learned;
    const auto file = TokenFile::Open(Write(tokenizer, {text}));
    ASSERT_TRUE(file.ok()) << file.status();
    std::vector<int32_t> tokens;
    ASSERT_TRUE((*file)->Read(0, (*file)->tokens(), tokens).ok());
    EXPECT_EQ(Decode((*file)->tokenizer(), tokens), text);
    for (int round = 0; round < 100; ++round) {
      const uint64_t first = random() % tokens.size();
      const uint64_t count = random() % (tokens.size() - first);
      std::vector<int32_t> part;
      ASSERT_TRUE((*file)->Read(first, count, part).ok());
      EXPECT_TRUE(std::equal(part.begin(), part.end(), tokens.begin() + first));
      EXPECT_EQ(part.size(), count);
    }
  }
}

TEST(TokenArrayTest, WidthsFollowTheVocabulary) {
  EXPECT_EQ(TokenBytes(256), 1);
  EXPECT_EQ(TokenBytes(257), 2);
  EXPECT_EQ(TokenBytes(65536), 2);
  EXPECT_EQ(TokenBytes(65537), 4);
  std::string packed;
  PackTokens({7, 1 << 20}, 4, packed);
  TokenChunks chunks;
  chunks.Add(packed);
  const std::vector<uint64_t> checksums = chunks.Finish();
  CheckedTokens::Layout layout;
  layout.packed = packed;
  layout.token_bytes = 4;
  layout.vocabulary = (1 << 20) + 1;
  layout.checksums = {reinterpret_cast<const char*>(checksums.data()), 8 * checksums.size()};
  std::vector<int32_t> tokens;
  ASSERT_TRUE(CheckedTokens(layout, "memory").Read(0, 2, tokens).ok());
  EXPECT_EQ(tokens, (std::vector<int32_t>{7, 1 << 20}));
  layout.vocabulary = 1 << 20;
  const absl::Status unknown = CheckedTokens(layout, "memory").Read(0, 1, tokens);
  EXPECT_EQ(unknown.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("memory has the token 1048576"));
}

TEST_F(TokenFileTest, ThreadsReadTheSameChunksAtOnce) {
  std::mt19937 random(8);
  std::string text(4 << 20, '\0');
  for (char& byte : text) byte = static_cast<char>(random());
  const auto file = TokenFile::Open(Write(ByteTokenizer(), {text}));
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<std::string> read(4);
  std::vector<std::thread> threads;
  for (std::string& each : read) {
    threads.emplace_back([&file, &each] {
      std::vector<int32_t> tokens;
      for (uint64_t at = 0; at < (*file)->tokens(); at += 1 << 18) {
        if (!(*file)->Read(at, 1 << 18, tokens).ok()) return;
      }
      each = Decode((*file)->tokenizer(), tokens);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& each : read) EXPECT_TRUE(each == text);
}

TEST_F(TokenFileTest, AnyChangedBitIsNoticed) {
  const std::string good = BytesOfFile(Write(*Learned(260), {"some text, and some more", "text"}));
  ASSERT_TRUE(StatusOf(good).ok()) << StatusOf(good);
  std::mt19937 random(9);
  for (int round = 0; round < 300; ++round) {
    std::string bytes = good;
    const size_t at = round < 130 ? round % 128 : random() % bytes.size();
    bytes[at] ^= static_cast<char>(1 << random() % 8);
    const absl::Status status = StatusOf(bytes);
    // Zeros between the parts say nothing, so a change of them changes nothing.
    if (status.ok()) {
      EXPECT_EQ(good[at], '\0') << at;
    } else {
      EXPECT_THAT(std::string(status.message()), HasSubstr("changed")) << at;
    }
  }
}

TEST_F(TokenFileTest, AnyChangedBitOfDocumentsAndTrainedBitsIsNoticed) {
  const std::string good = WithUntrained();
  ASSERT_TRUE(StatusOf(good).ok()) << StatusOf(good);
  for (size_t at = 0; at < good.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bytes = good;
      bytes[at] ^= static_cast<char>(1 << bit);
      const absl::Status status = StatusOf(bytes);
      // Zeros between the parts say nothing.
      if (status.ok()) {
        EXPECT_EQ(good[at], '\0') << at;
      } else {
        EXPECT_THAT(std::string(status.message()), HasSubstr("changed")) << at;
      }
    }
    EXPECT_EQ(StatusOf(good.substr(0, at)).code(),
              at < 8 ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kDataLoss)
        << at;
  }
}

// Ends that were made to lie, with all checksums made right.
TEST_F(TokenFileTest, DocumentsThatDoNotDivideTheTokensAreRefused) {
  const std::string good = BytesOfFile(Write(ByteTokenizer(), {"abc", "de"}));
  const std::vector<std::pair<std::vector<uint64_t>, std::string>> lies = {
      {{3, 4}, "its documents end at token 4, but it has 5"},
      {{3, 6}, "its document 1 ends at token 6, expected more than 3 and at most 5"},
      {{5, 5}, "its document 1 ends at token 5, expected more than 5 and at most 5"},
      {{0, 5}, "its document 0 ends at token 0, expected more than 0 and at most 5"},
      {{4, 3}, "its document 1 ends at token 3, expected more than 4 and at most 5"}};
  for (const auto& [ends, expected] : lies) {
    std::string bytes = good.substr(0, good.size() - 16);
    bytes.append(reinterpret_cast<const char*>(ends.data()), 16);
    const uint64_t of_ends = Fingerprint(absl::string_view(bytes).substr(bytes.size() - 16));
    memcpy(&bytes[64], &of_ends, 8);
    const uint64_t checksum = Fingerprint(absl::string_view(bytes).substr(0, 120));
    memcpy(&bytes[120], &checksum, 8);
    EXPECT_EQ(StatusOf(bytes).code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(StatusOf(bytes).message()), HasSubstr(expected));
  }
}

TEST_F(TokenFileTest, DamagedTrainedBitsAreNamed) {
  std::string bytes = WithUntrained();
  // Two bytes of bits, zeros, and a checksum are at the end.
  bytes[bytes.size() - 16] ^= 1;
  EXPECT_THAT(std::string(StatusOf(bytes).message()),
              HasSubstr("the row of trained bits in the token file"));
}

TEST_F(TokenFileTest, DamageIsNamed) {
  const std::string good = BytesOfFile(Write(ByteTokenizer(), {"abcdefgh"}));
  EXPECT_THAT(std::string(StatusOf(good.substr(0, 100)).message()),
              HasSubstr("ends within its header"));
  EXPECT_THAT(std::string(StatusOf(good.substr(0, good.size() - 1)).message()),
              HasSubstr(absl::StrCat("bytes, expected ", good.size())));
  EXPECT_EQ(StatusOf(good + "x").code(), absl::StatusCode::kDataLoss);
  std::string bytes = good;
  bytes[128] = 'X';
  EXPECT_EQ(StatusOf(bytes).code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(StatusOf(bytes).message()), HasSubstr("damaged within tokens 0 to 8"));
  EXPECT_EQ(StatusOf("plain text").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(TokenFile::Open(PathOf("none")).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(TokenFileTest, ANewerFormatIsRefusedByName) {
  std::string bytes = BytesOfFile(Write(ByteTokenizer(), {"abcdefgh"}));
  bytes[8] = 3;
  const absl::Status status = StatusOf(bytes);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("format version 3"));
}

// A header that was made to lie, with its checksum made right.
TEST_F(TokenFileTest, AHeaderCannotPointOutsideOfTheFile) {
  const std::string good = BytesOfFile(Write(ByteTokenizer(), {"abcdefgh"}));
  for (const size_t field : {12, 16, 32, 40, 56, 72}) {
    for (const uint64_t value : {uint64_t{0}, uint64_t{1} << 31, uint64_t{1} << 62, ~uint64_t{0}}) {
      std::string bytes = good;
      memcpy(&bytes[field], &value, field == 12 ? 4 : 8);
      const uint64_t checksum = Fingerprint(absl::string_view(bytes).substr(0, 120));
      memcpy(&bytes[120], &checksum, 8);
      if (bytes == good) continue;
      EXPECT_EQ(StatusOf(bytes).code(), absl::StatusCode::kDataLoss) << field << " " << value;
    }
  }
}

TEST_F(TokenFileTest, ContentAndNameAreDurable) {
  Flushed().clear();
  Write(ByteTokenizer(), {"abc"});
  ASSERT_EQ(Flushed().size(), 2u);
  EXPECT_THAT(Flushed()[0].first,
              StartsWith(std::filesystem::path(folder_.path()).lexically_normal().string() + "/"));
  EXPECT_TRUE(std::filesystem::equivalent(Flushed()[1].first, folder_.path()));
  EXPECT_THAT(Flushed()[1].second, ElementsAre("t.tokens"));
  // In the folder that this runs in.
  Flushed().clear();
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path());
  {
    const ByteTokenizer tokenizer;
    auto writer = TokenFileWriter::Create("u.tokens", tokenizer);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE((*writer)->AddDocument("abc").ok());
    EXPECT_TRUE((*writer)->Finish().ok());
  }
  std::filesystem::current_path(before);
  ASSERT_EQ(Flushed().size(), 2u);
  EXPECT_TRUE(std::filesystem::equivalent(Flushed()[1].first, folder_.path()));
}

TEST_F(TokenFileTest, NothingIsLeftOfWhatWasNotFinished) {
  const ByteTokenizer tokenizer;
  {
    auto writer = TokenFileWriter::Create(PathOf("u.tokens"), tokenizer);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE((*writer)->AddDocument("abc").ok());
    EXPECT_FALSE(std::filesystem::exists(PathOf("u.tokens")));
  }
  {
    auto writer = TokenFileWriter::Create(PathOf("u.tokens"), tokenizer);
    ASSERT_TRUE(writer.ok());
    EXPECT_EQ((*writer)->Finish().status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
  const auto unwritable = TokenFileWriter::Create(PathOf("no/u.tokens"), tokenizer);
  EXPECT_THAT(std::string(unwritable.status().message()), HasSubstr("no/u.tokens"));
}

}  // namespace
}  // namespace muster

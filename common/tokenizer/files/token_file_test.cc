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
    return (*file)->Read(0, (*file)->tokens(), tokens);
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
  bytes[8] = 2;
  const absl::Status status = StatusOf(bytes);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("format version 2"));
}

// A header that was made to lie, with its checksum made right.
TEST_F(TokenFileTest, AHeaderCannotPointOutsideOfTheFile) {
  const std::string good = BytesOfFile(Write(ByteTokenizer(), {"abcdefgh"}));
  for (const size_t field : {12, 16, 32, 40}) {
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

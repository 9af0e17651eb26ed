#include "common/documents/tokenize_documents.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/compression/packed_for_testing.h"
#include "common/files/bytes_of_file.h"
#include "common/files/temp_folder.h"
#include "common/tokenizer/bpe/bpe_tokenizer.h"
#include "common/tokenizer/bpe/bpe_trainer.h"
#include "common/tokenizer/bpe/byte_tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Form = DocumentSource::Form;

std::unique_ptr<const BpeTokenizer> Learned() {
  BpeTrainer trainer;
  for (int i = 0; i < 300; ++i) trainer.Add(absl::StrCat(i * 7919, " word", i, " again", i));
  return *BpeTokenizer::Create(*trainer.Train(400));
}

class TokenizeDocumentsTest : public testing::Test {
 protected:
  std::string At(const std::string& name) const { return absl::StrCat(folder_.path(), "/", name); }

  // Makes a token file of what is at a path.
  absl::StatusOr<std::unique_ptr<const TokenFile>> Tokenize(const std::string& path,
                                                            const Tokenizer& tokenizer,
                                                            const std::string& raw = "",
                                                            int threads = 2) const {
    const auto source = FindDocuments(path, raw);
    if (!source.ok()) return source.status();
    const std::string out = out_.path() + "/out.tokens";
    auto writer = TokenFileWriter::Create(out, tokenizer, Replace::kFiles);
    if (!writer.ok()) return writer.status();
    const absl::Status status = TokenizeDocuments(*source, {}, tokenizer, threads, **writer);
    if (!status.ok()) return status;
    const auto summary = (*writer)->Finish();
    if (!summary.ok()) return summary.status();
    return TokenFile::Open(out);
  }

  std::string Refusal(const std::string& path, const std::string& raw = "") const {
    const auto source = FindDocuments(path, raw);
    return source.ok() ? "" : std::string(source.status().message());
  }

  const TempFolder folder_;
  const TempFolder out_;
};

std::vector<int32_t> TokensOf(const TokenFile& file) {
  std::vector<int32_t> tokens;
  EXPECT_TRUE(file.Read(0, file.tokens(), tokens).ok());
  return tokens;
}

std::vector<uint8_t> TrainedIn(const TokenFile& file) {
  std::vector<uint8_t> trained;
  EXPECT_TRUE(file.ReadTrained(0, file.tokens(), trained).ok());
  return trained;
}

TEST_F(TokenizeDocumentsTest, EachLineIsADocumentThatEnds) {
  const auto learned = Learned();
  const int32_t end = *learned->end_of_text();
  folder_.Write("d.jsonl", "{\"text\": \"a\"}\n{\"text\": \"word1\"}\n");
  const auto file = Tokenize(At("d.jsonl"), *learned);
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<int32_t> expected = EncodeAll(*learned, "a");
  expected.push_back(end);
  const uint64_t first = expected.size();
  for (const int32_t token : EncodeAll(*learned, "word1")) expected.push_back(token);
  expected.push_back(end);
  EXPECT_EQ(TokensOf(**file), expected);
  EXPECT_THAT((*file)->document_ends(), ElementsAre(first, expected.size()));
  EXPECT_FALSE((*file)->has_trained_bits());
  EXPECT_EQ((*file)->source_bytes(), 6u);
}

TEST_F(TokenizeDocumentsTest, PromptsAreNotLearnedAndEndsAreAsWhatTheyEnd) {
  const auto learned = Learned();
  folder_.Write("p.jsonl", "{\"prompt\": \"ab\", \"completion\": \"c\"}\n");
  const auto pair = Tokenize(At("p.jsonl"), *learned);
  ASSERT_TRUE(pair.ok()) << pair.status();
  EXPECT_THAT(TrainedIn(**pair), ElementsAre(0, 0, 1, 1));
  EXPECT_EQ(TokensOf(**pair).back(), *learned->end_of_text());
  // The last message is the user's.
  folder_.Write("c.jsonl",
                "[{\"role\": \"assistant\", \"content\": \"a\"}, {\"role\": \"user\", \"content\": "
                "\"b\"}]\n");
  const auto chat = Tokenize(At("c.jsonl"), *learned);
  ASSERT_TRUE(chat.ok()) << chat.status();
  const std::vector<uint8_t> trained = TrainedIn(**chat);
  EXPECT_EQ(trained.back(), 0);
  EXPECT_EQ(std::count(trained.begin(), trained.end(), 1), 1);
  // A document that ends with an end-of-text needs none.
  folder_.Write("e.jsonl", "{\"prompt\": \"ab\", \"completion\": \"c<|endoftext|>\"}\n");
  const auto ended = Tokenize(At("e.jsonl"), *learned);
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ((*ended)->fingerprint(), (*pair)->fingerprint());
}

// Several batches, on any number of threads, packed or not, in one file or in several.
TEST_F(TokenizeDocumentsTest, TheFileDependsOnTheDocumentsAlone) {
  const auto learned = Learned();
  std::string first;
  std::string second;
  for (int i = 0; i < 40'000; ++i) {
    const std::string line = absl::StrCat("{\"prompt\": \"word", i, " ", std::string(i % 200, 'x'),
                                          "\", \"completion\": \"again", i * 7919, "\"}\n");
    (i < 15'000 ? first : second) += line;
  }
  folder_.Write("all.jsonl", first + second);
  const auto expected = Tokenize(At("all.jsonl"), *learned, "", 1);
  ASSERT_TRUE(expected.ok()) << expected.status();
  const std::string bytes = BytesOfFile(out_.path() + "/out.tokens");
  ASSERT_TRUE(Tokenize(At("all.jsonl"), *learned, "", 3).ok());
  EXPECT_TRUE(BytesOfFile(out_.path() + "/out.tokens") == bytes);
  std::filesystem::create_directory(At("parts"));
  folder_.Write("parts/1.jsonl.gz", Gzip(first));
  folder_.Write("parts/2.zst", Zstd(second));
  folder_.Write("parts/3", "");
  for (const char* path : {"parts", "parts/*"}) {
    ASSERT_TRUE(Tokenize(At(path), *learned).ok());
    EXPECT_TRUE(BytesOfFile(out_.path() + "/out.tokens") == bytes);
  }
}

TEST_F(TokenizeDocumentsTest, TextFilesAreDocumentsAsInAFolderThatAJobReads) {
  const auto learned = Learned();
  std::filesystem::create_directory(At("texts"));
  folder_.Write("texts/a", "some words");
  folder_.Write("texts/b", "more");
  folder_.Write("texts/c", "some words");
  const auto file = Tokenize(At("texts"), *learned);
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<int32_t> expected = EncodeAll(*learned, "some words");
  expected.push_back(*learned->end_of_text());
  for (const int32_t token : EncodeAll(*learned, "more")) expected.push_back(token);
  EXPECT_EQ(TokensOf(**file), expected);
  const auto named = Tokenize(At("texts/[ab]"), *learned);
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_EQ((*named)->fingerprint(), (*file)->fingerprint());
}

TEST_F(TokenizeDocumentsTest, TokensAreTakenAsTheyAre) {
  const ByteTokenizer tokenizer;
  const std::string tokens("\x61\0\x62\0\xff\0", 6);
  folder_.Write("train.bin", tokens);
  const auto file = Tokenize(At("train.bin"), tokenizer, "u16");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(TokensOf(**file), ElementsAre(97, 98, 255));
  EXPECT_EQ((*file)->source_bytes(), 3u);
  EXPECT_THAT((*file)->document_ends(), ElementsAre(3));
  // By its content the file is nothing that is known.
  EXPECT_THAT(Refusal(At("train.bin")), HasSubstr("say --raw u16"));
  EXPECT_THAT(Refusal(At("train.bin"), "f32"), HasSubstr("no type 'f32'; expected u8, u16"));
  const auto wrong = Tokenize(At("train.bin"), tokenizer, "u32");
  EXPECT_THAT(std::string(wrong.status().message()), HasSubstr("no whole number of tokens"));
}

TEST_F(TokenizeDocumentsTest, FormsAreKnownByTheirContent) {
  const auto form = [this](const std::string& name, const std::string& bytes) {
    const auto source = FindDocuments(folder_.Write(name, bytes));
    return source.ok() ? std::string(NameOf(source->form)) : std::string(source.status().message());
  };
  EXPECT_EQ(form("a.bin", "plain text"), "text");
  EXPECT_EQ(form("b.txt", "{\"text\": \"a\"}\n"), "JSON lines");
  EXPECT_EQ(form("b.txt", "{\"text\": \"cut off"), "JSON lines");
  EXPECT_EQ(form("c.txt", Zstd("{\"text\": \"a\"}\n")), "JSON lines");
  EXPECT_EQ(form("d.txt", std::string("\x88\xd8\x34\x01", 4)), "a shard of tokens of llm.c");
  EXPECT_EQ(form("e.txt", "\x93NUMPY"), "a NumPy array of tokens");
  EXPECT_EQ(form("f.idx", std::string("MMIDIDX\0\0", 9)), "indexed tokens of Megatron");
  folder_.Write("f.bin", std::string(4, '\0'));
  EXPECT_EQ(FindDocuments(At("f.bin"))->files, std::vector<std::string>{At("f.idx")});
  EXPECT_EQ(FindDocuments(At("f.*"))->files, std::vector<std::string>{At("f.idx")});
  EXPECT_EQ(form("g.txt", "MUSTERTK"), "a token file");
  EXPECT_THAT(form("h.gz", Gzip("plain text")), HasSubstr("h.gz is compressed, and not JSON"));
  const std::string cut = Gzip("{\"text\": \"a\"}\n").substr(0, 20);
  EXPECT_EQ(FindDocuments(folder_.Write("k.gz", cut)).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(form("k.gz", cut), HasSubstr("k.gz is a compressed file that ends early"));
  EXPECT_THAT(form("i.json", "[\n {\"text\": \"a\"}\n]\n"), HasSubstr("jq -c '.[]'"));
  EXPECT_THAT(form("j", ""), HasSubstr("j is empty"));
  EXPECT_THAT(Refusal(At("none")), HasSubstr("none"));
  EXPECT_THAT(Refusal(At("[ab].*")),
              AllOf(HasSubstr("a.bin is text"), HasSubstr("b.txt is JSON lines")));
}

}  // namespace
}  // namespace muster

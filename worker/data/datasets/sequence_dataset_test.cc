#include "worker/data/datasets/sequence_dataset.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/tokenizer/bpe/bpe_json.h"
#include "common/tokenizer/bpe/bpe_tokenizer.h"
#include "common/tokenizer/bpe/bpe_trainer.h"
#include "common/tokenizer/bpe/byte_tokenizer.h"
#include "common/tokenizer/files/open_tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/data/batch.h"
#include "worker/data/parsing/temp_files_for_testing.h"
#include "worker/data/shared_data_for_testing.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<const SequenceDataset> Open(const SequenceOptions& options) {
  auto dataset = SequenceDataset::Create(options);
  EXPECT_TRUE(dataset.ok()) << dataset.status();
  return dataset.ok() ? *std::move(dataset) : nullptr;
}

std::string Message(const SequenceOptions& options) {
  return std::string(SequenceDataset::Create(options).status().message());
}

// All tokens of a dataset in order, by its examples.
std::vector<int32_t> AllTokens(const SequenceDataset& dataset) {
  std::vector<int32_t> all;
  Batch batch;
  for (int64_t i = 0; i < dataset.info().examples; ++i) {
    EXPECT_TRUE(dataset.Read({i}, batch).ok());
    EXPECT_EQ(static_cast<int64_t>(batch.tokens.size()), dataset.info().context);
    all.insert(all.end(), batch.tokens.begin(), batch.tokens.end());
  }
  return all;
}

std::string TokenizerFile(const TempFolder& folder) {
  BpeTrainer trainer;
  for (int i = 0; i < 50; ++i) trainer.Add(absl::StrCat("some words are ", i % 3, " here"));
  return folder.Write("tokenizer.json", WriteBpeJson(*trainer.Train(280)));
}

TEST(SequenceDatasetTest, ExamplesAreWindowsAndLabelsTheNextTokens) {
  const TempFolder folder;
  const auto dataset = Open({folder.Write("text", "abcdefghijk"), "", 3});
  const DatasetInfo& info = dataset->info();
  EXPECT_EQ(info.examples, 3);
  EXPECT_EQ(info.context, 3);
  EXPECT_EQ(info.vocabulary, 256);
  EXPECT_EQ(info.classes, 256);
  EXPECT_EQ(info.labels_per_example, 3);
  EXPECT_EQ(info.label_bytes, std::vector<int32_t>(256, 1));
  Batch batch;
  ASSERT_TRUE(dataset->Read({2, 0}, batch).ok());
  EXPECT_EQ(batch.examples, 2);
  EXPECT_THAT(batch.tokens, ElementsAre('g', 'h', 'i', 'a', 'b', 'c'));
  EXPECT_THAT(batch.labels, ElementsAre('h', 'i', 'j', 'b', 'c', 'd'));
  ASSERT_TRUE(dataset->Read({}, batch).ok());
  EXPECT_EQ(batch.examples, 0);
  EXPECT_TRUE(batch.tokens.empty());
}

TEST(SequenceDatasetTest, TheLastExampleNeedsTheTokenAfterIt) {
  const TempFolder folder;
  EXPECT_EQ(Open({folder.Write("a", "abcdef"), "", 3})->info().examples, 1);
  EXPECT_EQ(Open({folder.Write("b", "abcdefg"), "bytes", 3})->info().examples, 2);
  EXPECT_THAT(Message({folder.Write("c", "abc"), "", 3}), HasSubstr("has 3 tokens"));
  EXPECT_THAT(Message({folder.Write("c", "abc"), "", 0}), HasSubstr("0 tokens"));
}

TEST(SequenceDatasetTest, DocumentsAreSeparatedByTheEndOfText) {
  const TempFolder folder;
  const std::string name = TokenizerFile(folder);
  const auto tokenizer = OpenTokenizer(name);
  ASSERT_TRUE(tokenizer.ok());
  const TempFolder texts;
  texts.Write("1", "some words");
  texts.Write("2", "are here");
  const auto dataset = Open({texts.path(), name, 1});
  std::vector<int32_t> expected = EncodeAll(**tokenizer, "some words<|endoftext|>are here");
  EXPECT_EQ(dataset->info().vocabulary, (*tokenizer)->vocabulary());
  // The documents' own bytes.
  int32_t bytes = 0;
  for (const int32_t token : expected) bytes += dataset->info().label_bytes[token];
  EXPECT_EQ(bytes, 18);
  expected.pop_back();
  EXPECT_EQ(AllTokens(*dataset), expected);
}

TEST(SequenceDatasetTest, ATextAndItsTokenFileAreTheSameData) {
  const TempFolder folder;
  const std::string name = TokenizerFile(folder);
  const TempFolder texts;
  texts.Write("1", "some words are here, or there");
  texts.Write("2", "some words are not");
  for (const std::string& tokenizer_name : {std::string("bytes"), name}) {
    const auto tokenizer = OpenTokenizer(tokenizer_name);
    ASSERT_TRUE(tokenizer.ok());
    const std::string path = folder.path() + "/t.tokens";
    auto writer = TokenFileWriter::Create(path, **tokenizer, Replace::kFiles);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE((*writer)->AddDocument("some words are here, or there").ok());
    ASSERT_TRUE((*writer)->AddDocument("some words are not").ok());
    ASSERT_TRUE((*writer)->Finish().ok());
    const auto text = Open({texts.path(), tokenizer_name, 4});
    const auto tokens = Open({path, "", 4});
    EXPECT_EQ(text->fingerprint(), tokens->fingerprint());
    EXPECT_EQ(AllTokens(*text), AllTokens(*tokens));
    EXPECT_EQ(text->info().label_bytes, tokens->info().label_bytes);
    EXPECT_EQ(text->info().tokenizer->fingerprint, (*tokenizer)->fingerprint());
    EXPECT_EQ(text->info().tokenizer->name, tokenizer_name);
    EXPECT_EQ(tokens->info().tokenizer->fingerprint, (*tokenizer)->fingerprint());
    EXPECT_EQ(tokens->info().tokenizer->name, path);
    EXPECT_THAT(Message({path, tokenizer_name, 4}), HasSubstr("is a token file"));
  }
}

TEST(SequenceDatasetTest, ATokenFileAmongTextsIsRefusedByItsName) {
  const TempFolder texts;
  texts.Write("1", "some words are here");
  const std::string path = texts.path() + "/2.tokens";
  {
    const ByteTokenizer tokenizer;
    auto writer = TokenFileWriter::Create(path, tokenizer);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE((*writer)->AddDocument("some words").ok());
    ASSERT_TRUE((*writer)->Finish().ok());
  }
  const absl::Status refused = SequenceDataset::Create({texts.path(), "", 2}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("'" + path + "' is a token file"));
}

TEST(SequenceDatasetTest, TheFingerprintIsThatOfTokensAndTokenizer) {
  const TempFolder folder;
  const std::string name = TokenizerFile(folder);
  const std::string text = folder.Write("text", "some words are here");
  const uint64_t bytes = Open({text, "", 2})->fingerprint();
  EXPECT_EQ(Open({text, "bytes", 2})->fingerprint(), bytes);
  EXPECT_NE(Open({text, name, 2})->fingerprint(), bytes);
  EXPECT_NE(Open({folder.Write("other", "some words are Here"), "", 2})->fingerprint(), bytes);
}

TEST(SequenceDatasetTest, SaysWhatIsMissingOrDamaged) {
  const TempFolder folder;
  const std::string text = folder.Write("text", "some words are here");
  EXPECT_EQ(SequenceDataset::Create({folder.path() + "/none", "", 2}).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_THAT(Message({text, folder.path() + "/nowhere.json", 2}), HasSubstr("nowhere.json"));
  EXPECT_THAT(Message({folder.Write("cut", "MUSTERTK"), "", 2}), HasSubstr("damaged"));
}

TEST(SequenceDatasetTest, DamageThatIsMetWhileReadingIsAnError) {
  const TempFolder folder;
  const ByteTokenizer tokenizer;
  const std::string path = folder.path() + "/t.tokens";
  auto writer = TokenFileWriter::Create(path, tokenizer);
  ASSERT_TRUE(writer.ok());
  const std::string text(3 << 20, 'x');
  ASSERT_TRUE((*writer)->AddDocument(text).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  FILE* file = fopen(path.c_str(), "r+b");
  ASSERT_EQ(fseek(file, 128 + (1 << 20) + 5, SEEK_SET), 0);
  fputc('y', file);
  fclose(file);
  const auto dataset = Open({path, "", 1024});
  Batch batch;
  EXPECT_TRUE(dataset->Read({0}, batch).ok());
  EXPECT_EQ(dataset->Read({1500}, batch).code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(dataset->Read({2500}, batch).ok());
}

TEST(SequenceDatasetTest, Shakespeare) {
  const auto path = SharedDataFile("tinyshakespeare.txt");
  if (!path.ok()) GTEST_SKIP() << path.status().message();
  const auto dataset = Open({*path, "", 256});
  EXPECT_EQ(dataset->info().examples, (1115394 - 1) / 256);
  Batch batch;
  ASSERT_TRUE(dataset->Read({0}, batch).ok());
  EXPECT_EQ(std::string(batch.tokens.begin(), batch.tokens.begin() + 13), "First Citizen");
}

}  // namespace
}  // namespace muster

#include "worker/data/datasets/sequence_dataset.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/fingerprint.h"
#include "common/tokenizer/bpe/bpe_json.h"
#include "common/tokenizer/bpe/bpe_tokenizer.h"
#include "common/tokenizer/bpe/bpe_trainer.h"
#include "common/tokenizer/bpe/byte_tokenizer.h"
#include "common/tokenizer/files/open_tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/data/batch.h"
#include "worker/data/parsing/temp_files_for_testing.h"
#include "worker/data/sampling/sampler.h"
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

constexpr auto kWithin = SequenceOptions::Packing::kWithinDocuments;

// The whole of a dataset.
Batch AllOf(const SequenceDataset& dataset) {
  std::vector<int64_t> indices(dataset.info().examples);
  std::iota(indices.begin(), indices.end(), 0);
  Batch batch;
  EXPECT_TRUE(dataset.Read(indices, batch).ok());
  return batch;
}

// Writes the documents into a token file.
std::string TokenFileOf(const TempFolder& folder, const Tokenizer& tokenizer,
                        const std::vector<std::string>& documents) {
  const std::string path = folder.path() + "/t.tokens";
  auto writer = TokenFileWriter::Create(path, tokenizer, Replace::kFiles);
  EXPECT_TRUE(writer.ok()) << writer.status();
  for (const std::string& document : documents) {
    EXPECT_TRUE((*writer)->AddDocument(document).ok());
  }
  EXPECT_TRUE((*writer)->Finish().ok());
  return path;
}

// Windows cut documents anywhere: at borders, within, and across two of them.
TEST(SequenceDatasetTest, PositionsBeginAnewAtBordersAndInEveryWindow) {
  const TempFolder texts;
  texts.Write("1", "abcd");
  texts.Write("2", "efghij");
  texts.Write("3", "k");
  texts.Write("4", "lm");
  const Batch batch = AllOf(*Open({texts.path(), "", 4, kWithin}));
  EXPECT_EQ(std::string(batch.tokens.begin(), batch.tokens.end()), "abcdefghijkl");
  EXPECT_THAT(batch.positions, ElementsAre(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 0, 0));
  EXPECT_THAT(batch.labels, ElementsAre('b', 'c', 'd', -1, 'f', 'g', 'h', 'i', 'j', -1, -1, 'm'));
  // Any examples, in any order.
  const auto dataset = Open({texts.path(), "", 4, kWithin});
  Batch some;
  ASSERT_TRUE(dataset->Read({2, 0}, some).ok());
  EXPECT_THAT(some.positions, ElementsAre(0, 1, 0, 0, 0, 1, 2, 3));
  EXPECT_THAT(some.labels, ElementsAre('j', -1, -1, 'm', 'b', 'c', 'd', -1));
}

TEST(SequenceDatasetTest, AcrossDocumentsIsWhatItWas) {
  const TempFolder texts;
  texts.Write("1", "abcd");
  texts.Write("2", "efghij");
  const auto within = Open({texts.path(), "", 4, kWithin}), across = Open({texts.path(), "", 4});
  const Batch batch = AllOf(*across);
  EXPECT_TRUE(batch.positions.empty());
  EXPECT_THAT(batch.labels, ElementsAre('b', 'c', 'd', 'e', 'f', 'g', 'h', 'i'));
  EXPECT_NE(within->fingerprint(), across->fingerprint());
  // It was this before there were documents.
  const ByteTokenizer tokenizer;
  TokenChunks chunks;
  chunks.Add("abcdefghij");
  EXPECT_EQ(across->fingerprint(), TokensFingerprint(tokenizer.json(), 10, chunks.Finish()));
}

TEST(SequenceDatasetTest, TheEndOfTextIsLearnedAndLearnsNothing) {
  const TempFolder folder;
  const std::string name = TokenizerFile(folder);
  const auto tokenizer = OpenTokenizer(name);
  ASSERT_TRUE(tokenizer.ok());
  const TempFolder texts;
  texts.Write("1", "some");
  texts.Write("2", "words are");
  const Batch batch = AllOf(*Open({texts.path(), name, 1, kWithin}));
  const std::vector<int32_t> all = EncodeAll(**tokenizer, "some<|endoftext|>words are");
  ASSERT_EQ(batch.tokens.size(), all.size() - 1);
  int ends = 0;
  int32_t position = 0;
  for (size_t i = 0; i < batch.tokens.size(); ++i) {
    const bool ends_here = all[i] == (*tokenizer)->end_of_text();
    // Windows of one token are documents of one token.
    EXPECT_EQ(batch.positions[i], 0);
    EXPECT_EQ(batch.labels[i], ends_here ? -1 : all[i + 1]) << i;
    ends += ends_here;
  }
  EXPECT_EQ(ends, 1);
  const auto length = static_cast<int64_t>(all.size()) - 1;
  const Batch whole = AllOf(*Open({texts.path(), name, length, kWithin}));
  for (size_t i = 0; i < whole.tokens.size(); ++i) {
    EXPECT_EQ(whole.positions[i], position++);
    if (whole.labels[i] == -1) position = 0;
  }
}

TEST(SequenceDatasetTest, ATextAndItsTokenFileHaveTheSameDocuments) {
  const std::vector<std::string> documents = {"some words are here", "or", "there are some words"};
  const TempFolder folder;
  const std::string name = TokenizerFile(folder);
  const TempFolder texts;
  for (size_t i = 0; i < documents.size(); ++i) texts.Write(absl::StrCat(i), documents[i]);
  for (const std::string& tokenizer_name : {std::string("bytes"), name}) {
    const auto tokenizer = OpenTokenizer(tokenizer_name);
    ASSERT_TRUE(tokenizer.ok());
    const std::string path = TokenFileOf(folder, **tokenizer, documents);
    const auto text = Open({texts.path(), tokenizer_name, 3, kWithin});
    const auto tokens = Open({path, "", 3, kWithin});
    EXPECT_EQ(text->fingerprint(), tokens->fingerprint());
    const Batch of_text = AllOf(*text), of_file = AllOf(*tokens);
    EXPECT_EQ(of_text.tokens, of_file.tokens);
    EXPECT_EQ(of_text.labels, of_file.labels);
    EXPECT_EQ(of_text.positions, of_file.positions);
    // The same tokens with another border are other data.
    TempFolder other;
    other.Write("0", documents[0] + documents[1]);
    other.Write("1", documents[2]);
    if (tokenizer_name == "bytes") {
      EXPECT_EQ(Open({other.path(), "", 3})->fingerprint(),
                Open({texts.path(), "", 3})->fingerprint());
    }
    EXPECT_NE(Open({other.path(), tokenizer_name, 3, kWithin})->fingerprint(), text->fingerprint());
  }
}

// Files of the first version have no ends of documents, but an end-of-text between them.
TEST(SequenceDatasetTest, FilesWithoutDocumentsEndThemAtTheEndOfText) {
  const std::vector<std::string> documents = {"some words are here", "or", "there are some words"};
  const TempFolder folder;
  const auto tokenizer = OpenTokenizer(TokenizerFile(folder));
  ASSERT_TRUE(tokenizer.ok());
  const std::string path = TokenFileOf(folder, **tokenizer, documents);
  const Batch expected = AllOf(*Open({path, "", 3, kWithin}));
  std::ifstream file(path, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  bytes.resize(bytes.size() - documents.size() * sizeof(uint64_t));
  bytes[8] = 1;
  std::fill(bytes.begin() + 56, bytes.begin() + 120, '\0');
  const uint64_t checksum = Fingerprint(absl::string_view(bytes).substr(0, 120));
  std::memcpy(bytes.data() + 120, &checksum, sizeof(checksum));
  const std::string old = folder.Write("old.tokens", bytes);
  const auto dataset = Open({old, "", 3, kWithin});
  ASSERT_NE(dataset, nullptr);
  const Batch batch = AllOf(*dataset);
  EXPECT_EQ(batch.tokens, expected.tokens);
  EXPECT_EQ(batch.labels, expected.labels);
  EXPECT_EQ(batch.positions, expected.positions);
}

TEST(SequenceDatasetTest, TokensThatAreNotToBeLearnedAreNoLabels) {
  const TempFolder folder;
  const ByteTokenizer tokenizer;
  const std::string path = folder.path() + "/t.tokens";
  auto writer = TokenFileWriter::Create(path, tokenizer, Replace::kFiles);
  ASSERT_TRUE(writer.ok());
  const std::vector<int32_t> question = {'q', 'r'}, answer = {'a', 'b', 'c'};
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE((*writer)->AddTokens(question, Trained::kNo, 2).ok());
    ASSERT_TRUE((*writer)->AddTokens(answer, Trained::kYes, 3).ok());
    ASSERT_TRUE((*writer)->EndDocument().ok());
  }
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_THAT(AllOf(*Open({path, "", 9})).labels,
              ElementsAre(-1, 'a', 'b', 'c', -1, -1, 'a', 'b', 'c'));
  const Batch within = AllOf(*Open({path, "", 3, kWithin}));
  EXPECT_THAT(within.labels, ElementsAre(-1, 'a', 'b', 'c', -1, -1, 'a', 'b', 'c'));
  EXPECT_THAT(within.positions, ElementsAre(0, 1, 2, 0, 1, 0, 0, 1, 2));
}

constexpr auto kWhole = SequenceOptions::Packing::kWholeDocuments;

TEST(SequenceDatasetTest, WholeDocumentsShareWindowsWithPadding) {
  const TempFolder texts;
  texts.Write("1", "abcdefgh");
  texts.Write("2", "ijk");
  texts.Write("3", "lm");
  texts.Write("4", "nopq");
  const auto dataset = Open({texts.path(), "", 4, kWhole});
  ASSERT_EQ(dataset->info().examples, 4);
  const Batch batch = AllOf(*dataset);
  const std::string padding(3, '\0');
  EXPECT_EQ(std::string(batch.tokens.begin(), batch.tokens.end()),
            "abcd"
            "efgl"
            "ij" +
                padding.substr(0, 2) + "nop" + padding.substr(0, 1));
  EXPECT_THAT(batch.positions, ElementsAre(0, 1, 2, 3, 0, 1, 2, 0, 0, 1, 0, 0, 0, 1, 2, 0));
  EXPECT_THAT(batch.labels, ElementsAre('b', 'c', 'd', 'e', 'f', 'g', 'h', 'm', 'j', 'k', -1, -1,
                                        'o', 'p', 'q', -1));
  EXPECT_NE(dataset->fingerprint(), Open({texts.path(), "", 4, kWithin})->fingerprint());
}

TEST(SequenceDatasetTest, WholeDocumentsOfATextAndItsTokenFileAreTheSame) {
  const std::vector<std::string> documents = {"some words are here", "or", "there are some words"};
  const TempFolder folder;
  const std::string name = TokenizerFile(folder);
  const TempFolder texts;
  for (size_t i = 0; i < documents.size(); ++i) texts.Write(absl::StrCat(i), documents[i]);
  const auto tokenizer = OpenTokenizer(name);
  ASSERT_TRUE(tokenizer.ok());
  const auto text = Open({texts.path(), name, 3, kWhole});
  const auto tokens = Open({TokenFileOf(folder, **tokenizer, documents), "", 3, kWhole});
  EXPECT_EQ(text->fingerprint(), tokens->fingerprint());
  const Batch of_text = AllOf(*text), of_file = AllOf(*tokens);
  EXPECT_EQ(of_text.tokens, of_file.tokens);
  EXPECT_EQ(of_text.labels, of_file.labels);
  EXPECT_EQ(of_text.positions, of_file.positions);
  // Padding is the end-of-text where there is one.
  for (size_t i = 0; i < of_text.tokens.size(); ++i) {
    const bool starts_nothing = of_text.labels[i] == -1 && of_text.positions[i] == 0;
    EXPECT_EQ(starts_nothing, of_text.tokens[i] == (*tokenizer)->end_of_text()) << i;
  }
}

// Returns the lessons of a batch for a model: the tokens before each label in its document, and the
// label.
std::multiset<std::vector<int32_t>> LessonsOf(const Batch& batch, int64_t context) {
  std::multiset<std::vector<int32_t>> learned;
  for (size_t i = 0; i < batch.tokens.size(); ++i) {
    EXPECT_LT(batch.positions[i], context);
    if (batch.labels[i] == -1) continue;
    const auto end = batch.tokens.begin() + static_cast<ptrdiff_t>(i) + 1;
    std::vector<int32_t> lesson(end - batch.positions[i] - 1, end);
    lesson.push_back(batch.labels[i]);
    learned.insert(std::move(lesson));
  }
  return learned;
}

// Any data ranks that go on with one another's clocks, 1 -> 3 -> 2, read the very examples of one;
// in an epoch each token is learned once, from the document's tokens before it.
TEST(SequenceDatasetTest, AnEpochOfWholeDocumentsLearnsEveryTokenOnceForAnyDataRanks) {
  std::mt19937 random(11);
  const ByteTokenizer tokenizer;
  for (int round = 0; round < 30; ++round) {
    SCOPED_TRACE(round);
    const TempFolder folder;
    const std::string path = folder.path() + "/t.tokens";
    auto writer = TokenFileWriter::Create(path, tokenizer);
    ASSERT_TRUE(writer.ok());
    const auto context = static_cast<int64_t>(2 + random() % 12);
    std::multiset<std::vector<int32_t>> expected;
    for (int document = 0; document < 60; ++document) {
      std::vector<int32_t> tokens;
      std::vector<uint8_t> trained;
      for (uint32_t part = 0, parts = 1 + random() % 3; part < parts; ++part) {
        const bool learned = random() % 3 > 0;
        std::vector<int32_t> some(1 + random() % 9);
        for (int32_t& token : some) token = static_cast<int32_t>(random() % 256);
        const Trained mark = learned ? Trained::kYes : Trained::kNo;
        ASSERT_TRUE((*writer)->AddTokens(some, mark, some.size()).ok());
        tokens.insert(tokens.end(), some.begin(), some.end());
        trained.resize(tokens.size(), learned ? 1 : 0);
      }
      ASSERT_TRUE((*writer)->EndDocument().ok());
      for (size_t i = 1; i < tokens.size(); ++i) {
        if (trained[i] == 0) continue;
        const auto begin = tokens.begin() + static_cast<ptrdiff_t>((i - 1) / context * context);
        expected.insert({begin, tokens.begin() + static_cast<ptrdiff_t>(i) + 1});
      }
    }
    ASSERT_TRUE((*writer)->Finish().ok());
    const auto dataset = Open({path, "", context, kWhole});
    const int64_t examples = dataset->info().examples;
    std::vector<int64_t> seen;
    int64_t clock = 0;
    for (const int64_t ranks : {1, 3, 2}) {
      const auto sampler = Sampler::Create({.seed = 9,
                                            .data_ranks = ranks,
                                            .batches = StepBatches(3),
                                            .training_examples = examples});
      ASSERT_TRUE(sampler.ok()) << sampler.status();
      const int64_t until = ranks == 2 ? (examples + 2) / 3 : clock + 4;
      std::vector<int64_t> share;
      for (; clock < until; ++clock) {
        for (int64_t rank = 0; rank < ranks; ++rank) {
          (*sampler)->MicroBatchExamples(clock, rank, 0, share);
          seen.insert(seen.end(), share.begin(), share.end());
        }
      }
    }
    ASSERT_GE(static_cast<int64_t>(seen.size()), examples);
    // The last batch goes on with the next epoch.
    seen.resize(examples);
    Batch batch;
    ASSERT_TRUE(dataset->Read(seen, batch).ok());
    EXPECT_EQ(LessonsOf(batch, context), expected);
  }
}

TEST(SequenceDatasetTest, WholeDocumentsWantTheirEndsAndSomethingToLearn) {
  const TempFolder folder;
  const ByteTokenizer tokenizer;
  const std::string path = TokenFileOf(folder, tokenizer, {"ab", "cd"});
  std::ifstream file(path, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  bytes.resize(bytes.size() - 2 * sizeof(uint64_t));
  bytes[8] = 1;
  std::fill(bytes.begin() + 56, bytes.begin() + 120, '\0');
  const uint64_t checksum = Fingerprint(absl::string_view(bytes).substr(0, 120));
  std::memcpy(bytes.data() + 120, &checksum, sizeof(checksum));
  EXPECT_THAT(Message({folder.Write("old.tokens", bytes), "", 3, kWhole}),
              HasSubstr("does not say where documents end"));
  EXPECT_THAT(Message({TokenFileOf(folder, tokenizer, {"a", "b", "c", "d"}), "", 2, kWhole}),
              HasSubstr("has two tokens"));
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

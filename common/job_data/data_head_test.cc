#include "common/job_data/data_head.h"

#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/parquet/parquet_for_testing.h"
#include "common/tokenizer/bpe/bpe_json.h"
#include "common/tokenizer/bpe/bpe_tokenizer.h"
#include "common/tokenizer/bpe/byte_tokenizer.h"
#include "common/tokenizer/files/open_tokenizer.h"
#include "common/tokenizer/files/token_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

DataSize Head(const v1::DataSpec& data) {
  v1::JobSpec spec;
  *spec.mutable_data() = data;
  return ReadDataHead(spec);
}

std::string Write(const std::string& name, const std::string& content) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/", name);
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

TEST(DataHeadTest, KnowsATextsBytes) {
  v1::DataSpec data;
  data.mutable_text()->set_path(Write("text", std::string(1000, 'a')));
  EXPECT_EQ(Head(data).bytes, 1000u);
  EXPECT_EQ(Head(data).vocabulary, 256u);
  EXPECT_THAT(Head(data).assumptions, IsEmpty());
}

TEST(DataHeadTest, CopiesOfAFoldersFilesCountAndMappedFilesDoNot) {
  const std::string folder = ::testing::TempDir() + "/corpus";
  std::filesystem::create_directory(folder);
  // Without a byte on the disk.
  for (const char* name : {"corpus/a", "corpus/b"}) {
    std::filesystem::resize_file(Write(name, "x"), uint64_t{40} << 20);
  }
  std::filesystem::resize_file(Write("corpus/mapped", "x"), uint64_t{64} << 20);
  v1::DataSpec data;
  data.mutable_text()->set_path(folder);
  EXPECT_EQ(Head(data).bytes, uint64_t{80} << 20);
  EXPECT_EQ(Head(data).examples, uint64_t{144} << 20);
  std::filesystem::remove_all(folder);
}

TEST(DataHeadTest, ACheapLookReadsNothingAndTakesTheMost) {
  v1::JobSpec spec;
  spec.mutable_data()->mutable_text()->set_path(Write("cheap", "aaaa"));
  spec.mutable_model()->mutable_ngram()->set_orders(2);
  EXPECT_THAT(ReadDataHead(spec, DataLook::kCheap).repeats,
              ElementsAre(ElementsAre(Pair(1, 4)), ElementsAre(Pair(1, 4))));
  EXPECT_EQ(ReadDataHead(spec, DataLook::kCheap).bytes, 4u);

  v1::JobSpec sequences;
  sequences.mutable_data()->mutable_sequences()->set_path(Write("cheap", "aaaa"));
  sequences.mutable_data()->mutable_sequences()->set_tokenizer("/no/such/tokenizer.json");
  sequences.mutable_model()->mutable_transformer()->set_vocabulary(1000);
  EXPECT_EQ(ReadDataHead(sequences, DataLook::kCheap).vocabulary, 1000u);
  EXPECT_EQ(ReadDataHead(sequences, DataLook::kCheap).bytes, 4u);
}

TEST(DataHeadTest, CountsHowATextRepeatsItself) {
  v1::JobSpec spec;
  spec.mutable_data()->mutable_text()->set_path(Write("repeats", "abcabcabd"));
  EXPECT_THAT(ReadDataHead(spec).repeats, IsEmpty());
  spec.mutable_model()->mutable_ngram()->set_orders(3);
  // a and b three times, c twice, d once; ab, bc, ca, bd; abc, bca, cab, abd.
  EXPECT_THAT(ReadDataHead(spec).repeats,
              ElementsAre(ElementsAre(Pair(1, 1), Pair(2, 1), Pair(3, 2)),
                          ElementsAre(Pair(1, 1), Pair(2, 2), Pair(3, 1)),
                          ElementsAre(Pair(1, 1), Pair(2, 3))));
  EXPECT_THAT(ReadDataHead(spec).assumptions, IsEmpty());

  const std::string folder = ::testing::TempDir() + "/folder";
  std::filesystem::create_directory(folder);
  Write("folder/2", "abd");
  Write("folder/1", "abcabc");
  spec.mutable_data()->mutable_text()->set_path(folder);
  Write("folder/.0", "not read");
  EXPECT_EQ(ReadDataHead(spec).repeats[2], (std::map<uint64_t, uint64_t>{{1, 1}, {2, 3}}));
  EXPECT_EQ(ReadDataHead(spec).examples, 9u);

  spec.mutable_data()->mutable_text()->set_path(Write("long", std::string(3 << 20, 'a')));
  EXPECT_EQ(ReadDataHead(spec).repeats[0], (std::map<uint64_t, uint64_t>{{1 << 20, 1}}));
  EXPECT_THAT(ReadDataHead(spec).assumptions, ElementsAre(HasSubstr("first 1024 KiB")));
}

// Documents of 5, 3 and 9 tokens in sequences of 4, of which the stream has 4.
TEST(DataHeadTest, KnowsHowLongTheDocumentsOfATokenFileAre) {
  const ByteTokenizer tokenizer;
  const std::string path = absl::StrCat(::testing::TempDir(), "/documents.tokens");
  auto writer = TokenFileWriter::Create(path, tokenizer, Replace::kFiles);
  ASSERT_TRUE(writer.ok());
  for (const char* text : {"abcde", "fgh", "ijklmnopq"}) {
    ASSERT_TRUE((*writer)->AddDocument(text).ok());
  }
  ASSERT_TRUE((*writer)->Finish().ok());
  v1::JobSpec spec;
  spec.mutable_model()->mutable_transformer()->set_context(4);
  v1::SequenceData& sequences = *spec.mutable_data()->mutable_sequences();
  sequences.set_path(path);
  EXPECT_EQ(ReadDataHead(spec).document_tokens, 0);
  const uint64_t stream_bytes = ReadDataHead(spec).bytes;
  sequences.set_packing(v1::SequenceData::WITHIN_DOCUMENTS);
  // Parts of 4; of 1 and 3; of 4; of 4.
  EXPECT_DOUBLE_EQ(ReadDataHead(spec).document_tokens, (3 * 16 + 1 + 9) / 16.0);
  EXPECT_EQ(ReadDataHead(spec).padding, 0);
  EXPECT_EQ(ReadDataHead(spec, DataLook::kCheap).document_tokens, 0);
  EXPECT_THAT(ReadDataHead(spec).assumptions, IsEmpty());
  // Places of 4; of 2 and two of padding; of 4 and 4.
  sequences.set_packing(v1::SequenceData::WHOLE_DOCUMENTS);
  const DataSize whole = ReadDataHead(spec);
  EXPECT_DOUBLE_EQ(whole.document_tokens, (3 * 16 + 4 + 2) / 16.0);
  EXPECT_DOUBLE_EQ(whole.padding, 2.0 / 16);
  EXPECT_GT(whole.bytes, stream_bytes);

  v1::JobSpec mixed = spec;
  v1::MixtureData& mixture = *mixed.mutable_data()->mutable_mixture();
  for (const auto packing :
       {v1::SequenceData::WHOLE_DOCUMENTS, v1::SequenceData::ACROSS_DOCUMENTS}) {
    v1::MixtureSource& source = *mixture.add_sources();
    source.mutable_sequences()->set_path(path);
    source.mutable_sequences()->set_packing(packing);
    source.set_weight(packing == v1::SequenceData::WHOLE_DOCUMENTS ? 3 : 1);
  }
  EXPECT_DOUBLE_EQ(ReadDataHead(mixed).document_tokens, (3 * whole.document_tokens + 4) / 4);
  EXPECT_DOUBLE_EQ(ReadDataHead(mixed).padding, 0.75 * whole.padding);

  sequences.set_path(Write("no_tokens", "some text"));
  EXPECT_EQ(ReadDataHead(spec).document_tokens, 0);
  EXPECT_THAT(ReadDataHead(spec).assumptions,
              ElementsAre(HasSubstr("attention looks at whole sequences")));
}

TEST(DataHeadTest, KnowsSequencesOfBytes) {
  v1::DataSpec data;
  data.mutable_sequences()->set_path(Write("sequences", std::string(500, 'b')));
  EXPECT_EQ(Head(data).vocabulary, 256u);
  EXPECT_EQ(Head(data).bytes, 500u);
  EXPECT_EQ(Head(data).vocabulary_assumption, "");
  data.mutable_sequences()->set_tokenizer("/no/such/tokenizer.json");
  EXPECT_EQ(Head(data).vocabulary, 50257u);
  EXPECT_THAT(Head(data).vocabulary_assumption, HasSubstr("50,257"));
  EXPECT_THAT(Head(data).assumptions, ElementsAre(HasSubstr("cannot be read")));
}

v1::JobSpec TransformerOn(const std::string& path, const std::string& tokenizer) {
  v1::JobSpec spec;
  spec.mutable_model()->mutable_transformer();
  spec.mutable_data()->mutable_sequences()->set_path(path);
  spec.mutable_data()->mutable_sequences()->set_tokenizer(tokenizer);
  return spec;
}

uint32_t Filled(v1::JobSpec spec) {
  FillVocabulary(spec);
  return spec.model().transformer().vocabulary();
}

TEST(DataHeadTest, FillsInTheVocabularyThatTheDataHave) {
  const std::string text = Write("filled", "It was the best of times");
  EXPECT_EQ(Filled(TransformerOn(text, "")), 256u);
  BpeVocabulary vocabulary = BytesAsVocabulary();
  vocabulary.tokens.emplace_back("th");
  vocabulary.merges.push_back({'t', 'h'});
  const std::string tokenizer = Write("tokenizer.json", WriteBpeJson(vocabulary));
  EXPECT_EQ(Filled(TransformerOn(text, tokenizer)), 257u);
  const auto opened = OpenTokenizer(tokenizer);
  ASSERT_TRUE(opened.ok()) << opened.status();
  const std::string tokens = ::testing::TempDir() + "/tokens";
  const auto writer = TokenFileWriter::Create(tokens, **opened);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_EQ((*writer)->AddDocument("that"), absl::OkStatus());
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_EQ(Filled(TransformerOn(tokens, "")), 257u);
  // What is elsewhere may be text or tokens.
  EXPECT_EQ(Filled(TransformerOn("/no/such/data", tokenizer)), 257u);
  EXPECT_EQ(Filled(TransformerOn("/no/such/data", "")), 0u);
  EXPECT_EQ(Filled(TransformerOn(text, "/no/such/tokenizer.json")), 0u);
  v1::JobSpec given = TransformerOn(text, "");
  given.mutable_model()->mutable_transformer()->set_vocabulary(300);
  EXPECT_EQ(Filled(given), 300u);
}

TEST(DataHeadTest, ReadsAnImageFilesHeaderPackedOrNot) {
  const std::string head("\0\0\x08\x03\0\0\x01\x02\0\0\0\x05\0\0\0\x07", 16);
  v1::DataSpec data;
  data.mutable_idx()->set_images(Write("images", head));
  DataSize size = Head(data);
  EXPECT_EQ(size.examples, 258u);
  EXPECT_EQ(size.dense_features, 35u);
  EXPECT_EQ(size.bytes, 258u * 36);

  const std::string packed = ::testing::TempDir() + "/images.gz";
  gzFile file = gzopen(packed.c_str(), "wb");
  ASSERT_EQ(gzwrite(file, head.data(), head.size()), 16);
  gzclose(file);
  data.mutable_idx()->set_images(packed);
  EXPECT_EQ(Head(data).dense_features, 35u);
}

TEST(DataHeadTest, CountsLinesByTheFirstOnes) {
  std::string csv = "label,x,c\n";
  for (int i = 0; i < 20000; ++i) absl::StrAppend(&csv, i % 2, ",1,abc\n");
  v1::DataSpec data;
  data.mutable_csv()->set_path(Write("csv", csv));
  data.mutable_csv()->add_numeric("x");
  data.mutable_csv()->add_categorical("c");
  DataSize size = Head(data);
  EXPECT_NEAR(size.examples, 20000, 20);
  EXPECT_EQ(size.bytes, size.examples * 16);

  std::string libsvm;
  for (int i = 0; i < 20000; ++i) libsvm += "1 3:1 7:2\n";
  data.mutable_libsvm()->set_path(Write("libsvm", libsvm));
  size = Head(data);
  EXPECT_NEAR(size.examples, 20000, 1);
  EXPECT_EQ(size.keys, 3u);
  EXPECT_NEAR(size.bytes, 20000 * 36, 100);

  std::string libffm;
  for (int i = 0; i < 20000; ++i) libffm += "1 0:3:1 4:7:1\n";
  data.mutable_libffm()->set_path(Write("libffm", libffm));
  size = Head(data);
  EXPECT_NEAR(size.examples, 20000, 1);
  EXPECT_EQ(size.fields, 5u);
  EXPECT_EQ(size.keys, 6u);
  EXPECT_EQ(size.bytes, size.examples * 84);
}

TEST(DataHeadTest, ParquetSaysHowManyExamplesItHas) {
  v1::DataSpec data;
  data.mutable_csv()->set_path(
      Write("t.parquet", ParquetOfTexts({{"label", {"0", "1", "1"}}, {"x", {"1", "2", "3"}}})));
  data.mutable_csv()->set_label("label");
  data.mutable_csv()->add_numeric("x");
  const DataSize size = Head(data);
  EXPECT_EQ(size.examples, 3u);
  EXPECT_EQ(size.bytes, 3 * 8u);
  EXPECT_THAT(size.assumptions, IsEmpty());
  v1::JobSpec spec;
  *spec.mutable_data() = data;
  EXPECT_TRUE(CheckDataHead(spec).ok()) << CheckDataHead(spec);
  spec.mutable_data()->mutable_csv()->set_numeric(0, "labels");
  EXPECT_THAT(std::string(CheckDataHead(spec).message()),
              HasSubstr("t.parquet' has no column 'labels' among its 2; did you mean"));
}

TEST(DataHeadTest, CountsLinesOfPackedFilesAndOfPatterns) {
  std::string csv = "label,x,c\n";
  for (int i = 0; i < 20000; ++i) absl::StrAppend(&csv, i % 2, ",1,", i * 7919 % 10007, "\n");
  v1::DataSpec data;
  data.mutable_csv()->set_path(Write("part-1.csv", csv));
  Write("part-2.csv", csv);
  data.mutable_csv()->add_numeric("x");
  data.mutable_csv()->add_categorical("c");
  EXPECT_NEAR(Head(data).examples, 20000, 200);
  data.mutable_csv()->set_path(::testing::TempDir() + "/part-[12].csv");
  EXPECT_NEAR(Head(data).examples, 40000, 400);

  const std::string packed = ::testing::TempDir() + "/packed.csv.gz";
  const gzFile file = gzopen(packed.c_str(), "wb");
  ASSERT_EQ(gzwrite(file, csv.data(), csv.size()), static_cast<int>(csv.size()));
  ASSERT_EQ(gzclose(file), Z_OK);
  data.mutable_csv()->set_path(packed);
  EXPECT_NEAR(Head(data).examples, 20000, 4000);
  EXPECT_EQ(Head(data).bytes, Head(data).examples * 16);
}

TEST(DataHeadTest, OfLargeCsvFilesOnlyPlacesAreKept) {
  v1::DataSpec data;
  data.mutable_csv()->set_path(Write("large.csv", "label,x\n" + std::string(7, '1') + "\n"));
  data.mutable_csv()->add_numeric("x");
  EXPECT_EQ(Head(data).bytes, Head(data).examples * 8);
  // Without a byte on the disk.
  std::filesystem::resize_file(data.csv().path(), uint64_t{2} << 30);
  EXPECT_GT(Head(data).examples, uint64_t{1} << 20);
  EXPECT_EQ(Head(data).bytes, Head(data).examples * 12);
  std::filesystem::remove(data.csv().path());
}

// A job on a table with the columns y, größe and c.
v1::JobSpec TableJob(const std::string& path) {
  v1::JobSpec spec;
  v1::CsvData& csv = *spec.mutable_data()->mutable_csv();
  csv.set_path(path);
  csv.set_label("y");
  csv.add_numeric("größe");
  csv.add_categorical("c");
  return spec;
}

std::string Refusal(const v1::JobSpec& spec) { return std::string(CheckDataHead(spec).message()); }

TEST(DataHeadTest, RefusesColumnsThatATableDoesNotHave) {
  const std::string path = Write("table.csv", "\xef\xbb\xbfy,größe,c\n0,1,a\n");
  EXPECT_EQ(CheckDataHead(TableJob(path)), absl::OkStatus());
  v1::JobSpec job = TableJob(path);
  job.mutable_data()->mutable_csv()->set_label("click");
  EXPECT_THAT(Refusal(job),
              HasSubstr("table.csv' has no column 'click' among the 3 of its header"));
  job = TableJob(path);
  job.mutable_data()->mutable_csv()->set_numeric(0, "grösse");
  EXPECT_THAT(Refusal(job), HasSubstr("no column 'grösse' among the 3 of its header; did you mean "
                                      "\"größe\"?"));
  job = TableJob(path);
  job.mutable_data()->mutable_csv()->set_categorical(0, "C");
  EXPECT_THAT(Refusal(job), HasSubstr("no column 'C'"));
  job = TableJob(path);
  job.mutable_data()->mutable_csv()->set_separator(";");
  EXPECT_THAT(Refusal(job), HasSubstr("its separator looks like ',', not ';'"));
  // The data that a job is evaluated on have the same columns.
  job = TableJob(path);
  *job.mutable_validation() = job.data();
  job.mutable_validation()->mutable_csv()->set_path(Write("other.csv", "y,größe\n0,1\n"));
  EXPECT_THAT(Refusal(job), HasSubstr("other.csv' has no column 'c' among the 2"));
}

TEST(DataHeadTest, TablesThatTheBeginningDoesNotTellPass) {
  EXPECT_EQ(CheckDataHead(TableJob("/no/such/table.csv")), absl::OkStatus());
  EXPECT_EQ(CheckDataHead(TableJob(::testing::TempDir())), absl::OkStatus());
  EXPECT_EQ(CheckDataHead(TableJob(Write("empty.csv", ""))), absl::OkStatus());
  // The header goes on behind the first 64 KiB, by a quoted line end.
  const std::string longer(70000, 'x');
  EXPECT_EQ(CheckDataHead(TableJob(Write("longer.csv", longer + ",y\n"))), absl::OkStatus());
  EXPECT_EQ(CheckDataHead(TableJob(Write("lines.csv", "\"x\n" + longer + "\",y\n0,1\n"))),
            absl::OkStatus());
}

TEST(DataHeadTest, RefusesTextsThatAreNone) {
  v1::JobSpec job;
  v1::SequenceData& sequences = *job.mutable_data()->mutable_sequences();
  sequences.set_path(Write("text.txt", "{braces}, and text\n"));
  EXPECT_EQ(CheckDataHead(job), absl::OkStatus());
  const std::string lines = Write("lines.txt", "{\"text\": \"a\"}\n{\"text\": \"b\"}\n");
  sequences.set_path(lines);
  EXPECT_THAT(Refusal(job), HasSubstr("lines.txt', JSON lines, of which workers make tokens"));
  job.mutable_data()->mutable_text()->set_path(lines);
  EXPECT_THAT(Refusal(job), HasSubstr("lines.txt' has JSON on each line"));
  // Tasks may see it.
  job.mutable_data()->mutable_text()->set_path("/no/such/text");
  EXPECT_EQ(CheckDataHead(job), absl::OkStatus());
}

TEST(DataHeadTest, DocumentsOfWhichTasksMakeTokensAreKnownByTheFirst) {
  v1::JobSpec job;
  v1::SequenceData& sequences = *job.mutable_data()->mutable_sequences();
  sequences.set_tokenizer("bytes");
  sequences.set_path(Write("first.jsonl", "{\"other\": \"a\"}\n"));
  EXPECT_THAT(Refusal(job), AllOf(HasSubstr("first.jsonl:1: "), HasSubstr("fields: 'other'")));
  sequences.mutable_documents()->set_field("other");
  EXPECT_EQ(CheckDataHead(job), absl::OkStatus());
  EXPECT_EQ(ReadDataHead(job).bytes, uint64_t{64} << 20);
  EXPECT_THAT(ReadDataHead(job).assumptions, IsEmpty());
  sequences.clear_documents();
  sequences.set_path(Write("cut.jsonl", "{\"text\": \"a\"\n"));
  EXPECT_THAT(Refusal(job), HasSubstr("cut.jsonl:1: "));
  sequences.set_path(Write("chat.jsonl", "[{\"role\": \"user\", \"content\": \"a\"}]\n"));
  EXPECT_THAT(Refusal(job), AllOf(HasSubstr("chat.jsonl:1: "), HasSubstr("documents.model")));
  // Tasks may see it.
  sequences.set_path("/no/such/part-*.jsonl");
  EXPECT_EQ(CheckDataHead(job), absl::OkStatus());
}

TEST(DataHeadTest, SaysWhatIsNotHere) {
  v1::DataSpec data;
  data.mutable_idx()->set_images("/no/such/images");
  EXPECT_EQ(Head(data).dense_features, 784u);
  EXPECT_THAT(Head(data).assumptions,
              ElementsAre(HasSubstr("784"), HasSubstr("/no/such/images cannot be read")));
}

}  // namespace
}  // namespace muster

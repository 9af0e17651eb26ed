#include "worker/data/datasets/open_dataset.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/compression/packed_for_testing.h"
#include "common/documents/source_options.h"
#include "common/documents/tokenize_documents.h"
#include "common/parquet/parquet_for_testing.h"
#include "common/tokenizer/bpe/byte_tokenizer.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "worker/data/batch.h"
#include "worker/data/parsing/temp_files_for_testing.h"
#include "worker/data/prepared/prepared_folder.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class OpenDatasetTest : public testing::Test {
 protected:
  // The specification, @ in it standing for the test's folder.
  absl::StatusOr<std::unique_ptr<const Dataset>> Open(std::string text,
                                                      const DatasetOptions& options = {}) {
    for (size_t at = text.find('@'); at != std::string::npos; at = text.find('@')) {
      text.replace(at, 1, folder_.path());
    }
    v1::DataSpec spec;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
    return OpenDataset(spec, options);
  }

  const TempFolder folder_;
};

// Returns all examples of a dataset.
Batch AllOf(const Dataset& dataset) {
  std::vector<int64_t> indices(dataset.info().examples);
  std::iota(indices.begin(), indices.end(), 0);
  Batch batch;
  EXPECT_TRUE(dataset.Read(indices, batch).ok());
  return batch;
}

TEST_F(OpenDatasetTest, PreparesWhatTokenizeWouldMakeATokenFileOf) {
  std::string pairs, texts;
  for (int i = 0; i < 40; ++i) {
    pairs += absl::StrCat("{\"prompt\": \"ask ", i, "\", \"completion\": \"tell\"}\n");
    texts += absl::StrCat("{\"other\": \"text ", i, "\"}\n");
  }
  folder_.Write("pairs.gz", Gzip(pairs));
  std::filesystem::create_directory(folder_.path() + "/parts");
  folder_.Write("parts/1.zst", Zstd(texts));
  folder_.Write("parts/2.jsonl", texts);
  folder_.Write("rows.parquet", ParquetOfTexts({{"other", {"a longer", "b longer"}},
                                                {"text", {"one text", "two texts"}}}));
  std::string raw;
  for (int i = 0; i < 50; ++i) raw += std::string("a\0", 2);
  folder_.Write("raw.bin", raw);
  const PreparedFolder prepared(
      {.folder = folder_.path() + "/prepared", .most_bytes = uint64_t{1} << 30, .tokenize = {}});
  const DatasetOptions options = {.context = 8, .prepared = &prepared};
  struct Case {
    const char* path;
    const char* documents;
    SourceArguments arguments;
  };
  for (const Case& each :
       {Case{"pairs.gz", "", {}}, Case{"parts", "documents { field: 'other' }", {.field = "other"}},
        Case{"parts/*", "documents { field: 'other' }", {.field = "other"}},
        Case{"rows.parquet", "", {}},
        Case{"*.parquet", "documents { field: 'other' }", {.field = "other"}},
        Case{"raw.bin", "documents { raw: 'u16' }", {.raw = "u16"}}}) {
    const auto source =
        FindDocuments(absl::StrCat(folder_.path(), "/", each.path), each.arguments.raw);
    ASSERT_TRUE(source.ok()) << source.status();
    const auto read = OpenSourceOptions(each.arguments, "bytes");
    ASSERT_TRUE(read.ok()) << read.status();
    ASSERT_TRUE(MakeTokenFile(*source, read->documents, ByteTokenizer(), {},
                              folder_.path() + "/made.tokens", Replace::kFiles)
                    .ok());
    const std::string more = "packing: WITHIN_DOCUMENTS ";
    const auto expected =
        Open(absl::StrCat("sequences { path: '@/made.tokens' ", more, " }"), options);
    ASSERT_TRUE(expected.ok()) << expected.status();
    const auto dataset = Open(absl::StrCat("sequences { path: '@/", each.path,
                                           "' tokenizer: 'bytes' ", more, each.documents, " }"),
                              options);
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    EXPECT_EQ((*dataset)->fingerprint(), (*expected)->fingerprint()) << each.path;
    EXPECT_EQ((*dataset)->info().tokenizer->name, "bytes");
    const Batch batch = AllOf(**dataset);
    const Batch same = AllOf(**expected);
    EXPECT_EQ(batch.tokens, same.tokens);
    EXPECT_EQ(batch.labels, same.labels);
    EXPECT_EQ(batch.positions, same.positions);
  }
  const auto refused = Open("sequences { path: '@/pairs.gz' tokenizer: 'bytes' }", {.context = 8});
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("pairs.gz"));
  // Text is no source that needs preparing.
  folder_.Write("text", "plain text, which is long enough");
  ASSERT_TRUE(Open("sequences { path: '@/text' }", options).ok());
}

TEST_F(OpenDatasetTest, OpensText) {
  folder_.Write("text", "hello");
  const auto dataset = Open("text { path: '@/text' }", {.context = 3});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->info().examples, 5);
  EXPECT_EQ((*dataset)->info().context, 3);
  EXPECT_TRUE(Open("text { path: '@' }").ok());
}

TEST_F(OpenDatasetTest, OpensIdx) {
  folder_.Write("images", IdxFile({2, 3}, "abcdef"));
  folder_.Write("labels", IdxFile({2}, std::string("\x00\x01", 2)));
  const auto dataset = Open("idx { images: '@/images' labels: '@/labels' }");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->info().dense_features, 3);
}

TEST_F(OpenDatasetTest, OpensLibsvm) {
  folder_.Write("a.libsvm", "1 0:1\n0 1:1\n");
  const auto dataset = Open("libsvm { path: '@/a.libsvm' zero_based: true }");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_TRUE((*dataset)->info().sparse);
  EXPECT_EQ(Open("libsvm { path: '@/a.libsvm' }").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(OpenDatasetTest, OpensLibffmAsTheModelReadsIt) {
  folder_.Write("a.ffm", "1 0:1:1 2:5:1\n-1 1:1:1\n");
  const char* spec = "libffm { path: '@/a.ffm' }";
  const auto entries = Open(spec);
  ASSERT_TRUE(entries.ok()) << entries.status();
  EXPECT_TRUE((*entries)->info().sparse);
  EXPECT_EQ((*entries)->info().fields, 0);
  const auto fields = Open(spec, {.features = FeatureForm::kOnePerField});
  ASSERT_TRUE(fields.ok()) << fields.status();
  EXPECT_EQ((*fields)->info().fields, 3);
  EXPECT_EQ(Open(spec, {.labels = LabelKind::kNumber}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(OpenDatasetTest, OpensCsv) {
  folder_.Write("a.csv", "y,n,c\n0,1,a\n1,2,b\n");
  const auto dataset =
      Open("csv { path: '@/a.csv' label: 'y' numeric: 'n' categorical: 'c' } holdout: 0.5");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->info().examples, 2);
  EXPECT_EQ((*dataset)->info().dense_features, 1);
  EXPECT_EQ((*dataset)->info().fields, 1);
}

TEST_F(OpenDatasetTest, CsvTakesTheOptionsOfItsSpecification) {
  folder_.Write("a.csv", "no;5;a\nyes;7;b\nyes;100;a\n");
  const auto dataset = Open(
      "csv { path: '@/?.csv' no_header: true separator: ';' label: '1' numeric: '2' } "
      "holdout: 0.3");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  Batch batch;
  ASSERT_TRUE((*dataset)->Read({0, 1, 2}, batch).ok());
  EXPECT_THAT(batch.labels, ElementsAre(0, 1, 1));
  // The held-out example is as far from the mean of the others as it is.
  EXPECT_THAT(batch.dense, ElementsAre(-1, 1, 94));
  // What was learned is what a later reading of other data takes.
  folder_.Write("b.csv", "yes;8;a\n");
  const auto later =
      Open("csv { path: '@/b.csv' no_header: true separator: ';' label: '1' numeric: '2' }",
           {.preparation = (*dataset)->info().preparation});
  ASSERT_TRUE(later.ok()) << later.status();
  ASSERT_TRUE((*later)->Read({0}, batch).ok());
  EXPECT_THAT(batch.labels, ElementsAre(1));
  EXPECT_THAT(batch.dense, ElementsAre(2));
  EXPECT_EQ(Open("csv { path: '@/b.csv' separator: '::' label: 'y' numeric: 'n' }").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(OpenDatasetTest, NumbersToPredictComeFromCsvAndLibsvmAlone) {
  folder_.Write("a.csv", "y,n\n10,1\n30,2\n99,3\n");
  folder_.Write("a.libsvm", "10 1:1\n30 2:1\n99 1:2\n");
  for (const char* spec : {"csv { path: '@/a.csv' label: 'y' numeric: 'n' } holdout: 0.3",
                           "libsvm { path: '@/a.libsvm' } holdout: 0.3"}) {
    const auto dataset = Open(spec, {.labels = LabelKind::kNumber});
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    Batch batch;
    ASSERT_TRUE((*dataset)->Read({0, 1}, batch).ok());
    EXPECT_THAT(batch.targets, ElementsAre(-1, 1)) << spec;
    const auto later =
        Open(spec, {.labels = LabelKind::kNumber, .preparation = (*dataset)->info().preparation});
    ASSERT_TRUE(later.ok()) << later.status();
    EXPECT_EQ((*later)->info().target->mean, 20);
    EXPECT_THAT(
        std::string(
            Open(spec, {.labels = LabelKind::kNumber, .preparation = "\xff"}).status().message()),
        HasSubstr("damaged"));
  }
  const auto none = Open("synthetic_classification { examples: 10 features: 2 classes: 5 }",
                         {.labels = LabelKind::kNumber});
  EXPECT_EQ(none.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(none.status().message()),
              HasSubstr("data.synthetic_classification has no numbers to predict"));
}

TEST_F(OpenDatasetTest, OpensSyntheticClicks) {
  const auto dataset =
      Open("synthetic_clicks { examples: 10 fields: 2 cardinality: 5 numeric: 1 seed: 3 }");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->info().examples, 10);
  EXPECT_EQ((*dataset)->info().fields, 2);
  EXPECT_EQ((*dataset)->info().dense_features, 1);
}

TEST_F(OpenDatasetTest, OpensSyntheticClassification) {
  const auto dataset =
      Open("synthetic_classification { examples: 10 features: 2 classes: 5 seed: 3 }");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->info().classes, 5);
  EXPECT_EQ((*dataset)->info().dense_features, 2);
}

TEST_F(OpenDatasetTest, OpensMixtures) {
  folder_.Write("a", "abcdefgh.");
  folder_.Write("b", "0123.");
  const std::string sources = R"(
    mixture {
      sources { name: "letters" sequences { path: "@/a" tokenizer: "bytes" } weight: 1 }
      sources { name: "digits" sequences { path: "@/b" } weight: 2 }
    })";
  const auto dataset = Open(sources + " holdout: 0.5", {.context = 1});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  Batch batch;
  ASSERT_TRUE((*dataset)->Read({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, batch).ok());
  EXPECT_EQ(std::string(batch.tokens.begin(), batch.tokens.end()), "abcd01efgh23");
  // A random half of each source is held out.
  const auto drawn =
      Open(sources + " holdout: 0.5 shuffle_holdout: true", {.context = 1, .seed = 5});
  ASSERT_TRUE(drawn.ok()) << drawn.status();
  ASSERT_TRUE((*drawn)->Read({0, 1, 2, 3, 6, 7, 8, 9}, batch).ok());
  std::string letters(batch.tokens.begin(), batch.tokens.end());
  EXPECT_NE(letters, "abcdefgh");
  std::sort(letters.begin(), letters.end());
  EXPECT_EQ(letters, "abcdefgh");
  EXPECT_NE((*drawn)->fingerprint(), (*dataset)->fingerprint());

  const auto missing = Open(
      "mixture { sources { name: 'gone' sequences { path: '@/no' } weight: 1 } }", {.context = 1});
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()),
              HasSubstr("the mixture's source \"gone\": "));
}

// Jobs go on from checkpoints of an earlier release only where the data have the fingerprint that
// they had.
TEST_F(OpenDatasetTest, FingerprintsStayAsTheyAre) {
  folder_.Write("text", "hello");
  folder_.Write("images", IdxFile({2, 3}, "abcdef"));
  folder_.Write("labels", IdxFile({2}, std::string("\x00\x01", 2)));
  folder_.Write("a.libsvm", "1 0:1\n0 1:1\n");
  folder_.Write("a.csv", "y,n,c\n0,1,a\n1,2,b\n");
  const struct {
    const char* spec;
    uint64_t fingerprint;
  } cases[] = {
      {"text { path: '@/text' }", 10760762337991515389u},
      {"sequences { path: '@/text' }", 12175657328522167608u},
      {"idx { images: '@/images' labels: '@/labels' }", 3387589289212268412u},
      {"libsvm { path: '@/a.libsvm' zero_based: true }", 13300765732322642945u},
      {"csv { path: '@/a.csv' label: 'y' numeric: 'n' categorical: 'c' }", 837035064605205857u},
      {"synthetic_clicks { examples: 10 fields: 2 cardinality: 5 numeric: 1 seed: 3 }",
       13511074908552738245u},
      {"synthetic_classification { examples: 10 features: 2 classes: 5 seed: 3 }",
       15494689485732846567u},
  };
  for (const auto& [spec, fingerprint] : cases) {
    const auto dataset = Open(spec, {.context = 3});
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    EXPECT_EQ((*dataset)->fingerprint(), fingerprint) << spec;
  }
}

TEST_F(OpenDatasetTest, ASpecificationWithoutReaderIsAnsweredWithThoseThereAre) {
  const auto dataset = Open("holdout: 0.1");
  EXPECT_EQ(dataset.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(dataset.status().message()), HasSubstr("data.text"));
}

TEST_F(OpenDatasetTest, MissingPathsAreNotFoundByName) {
  for (const char* spec :
       {"text { path: '@/absent' }", "idx { images: '@/absent' labels: '@/absent' }",
        "libsvm { path: '@/absent' }", "csv { path: '@/absent' label: 'y' numeric: 'n' }"}) {
    const auto dataset = Open(spec);
    EXPECT_EQ(dataset.status().code(), absl::StatusCode::kNotFound) << spec;
    EXPECT_THAT(std::string(dataset.status().message()), HasSubstr(folder_.path() + "/absent"));
  }
}

TEST_F(OpenDatasetTest, PathsLeftOutAreRefused) {
  for (const char* spec : {"text {}", "idx {}", "libsvm {}", "csv { label: 'y' numeric: 'n' }"}) {
    EXPECT_EQ(Open(spec).status().code(), absl::StatusCode::kInvalidArgument) << spec;
  }
}

TEST_F(OpenDatasetTest, EmptyFilesAreRefusedByName) {
  folder_.Write("empty", "");
  for (const char* spec :
       {"text { path: '@/empty' }", "idx { images: '@/empty' labels: '@/empty' }",
        "libsvm { path: '@/empty' }", "csv { path: '@/empty' label: 'y' numeric: 'n' }"}) {
    const auto dataset = Open(spec);
    EXPECT_EQ(dataset.status().code(), absl::StatusCode::kInvalidArgument) << spec;
    EXPECT_THAT(std::string(dataset.status().message()), HasSubstr(folder_.path() + "/empty"));
  }
}

}  // namespace
}  // namespace muster

#include "worker/predict/write_predictions.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/clock.h"
#include "common/compression/packed_for_testing.h"
#include "common/files/temp_folder.h"
#include "common/parquet/parquet_for_testing.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "proto/data_preparation.pb.h"
#include "proto/job.pb.h"
#include "proto/schema.pb.h"
#include "worker/data/parsing/temp_files_for_testing.h"
#include "worker/data/sampling/sampler.h"
#include "worker/predict/exported_file_for_testing.h"
#include "worker/runtime/training/micro_batch_reader.h"
#include "worker/runtime/training/prepared_job.h"
#include "worker/runtime/training/step_executor.h"
#include "worker/strategy/local_strategy_for_testing.h"
#include "worker/strategy/row_keys_for_testing.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr uint64_t kSteps = 12;
// More than one pass.
constexpr int kExamples = 1500;

v1::JobSpec Parse(const std::string& text) {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat(text, " optimizer { name: 'sgd' learning_rate: 0.1 } workers: 1 seed: 3 ",
                   "stop { steps: ", kSteps, " } batch_size: 50 micro_batches: 1"),
      &spec))
      << text;
  return spec;
}

template <typename Number>
Number NumberOf(const std::string& text) {
  Number number = -1;
  EXPECT_EQ(std::from_chars(text.data(), text.data() + text.size(), number).ec, std::errc())
      << text;
  return number;
}

// A job that was trained in this process.
class LocalJob {
 public:
  explicit LocalJob(const v1::JobSpec& spec)
      : spec_(spec),
        job_(PrepareJob(spec).value()),
        strategy_(LocalStrategy::Create(*job_.schema).value()),
        engine_(spec, *job_.model, *strategy_) {
    SamplerOptions sampling;
    sampling.batches = job_.batches;
    sampling.training_examples = job_.split.training;
    const std::unique_ptr<const Sampler> sampler = Sampler::Create(sampling).value();
    RealClock clock;
    MicroBatchReader reader(*job_.dataset, *sampler, /*data_rank=*/0,
                            {.start_clock = 0, .end_clock = kSteps}, clock);
    for (uint64_t step = 0; step < kSteps; ++step) {
      StepSums sums;
      EXPECT_EQ(engine_.Train(step, reader, sums), absl::OkStatus());
    }
    EXPECT_EQ(engine_.BeginEvaluation(kSteps), absl::OkStatus());
  }

  const v1::JobSpec& spec() const { return spec_; }

  // Returns the bytes that `muster export` would write.
  std::string Export() const {
    ExportedFile file;
    file.AddMetadata("format", "muster");
    v1::DataPreparation preparation;
    EXPECT_TRUE(preparation.ParseFromString(job_.dataset->info().preparation));
    std::string json;
    EXPECT_TRUE(google::protobuf::util::MessageToJsonString(preparation, &json).ok());
    if (!job_.dataset->info().preparation.empty()) file.AddMetadata("data_preparation", json);
    const ModelDescription& model = job_.model->description();
    for (size_t t = 0; t < model.tensors.size(); ++t) {
      file.Add(model.tensors[t].name, "F32", model.tensors[t].shape,
               strategy_->parameters().values[t]);
    }
    const std::unique_ptr<MicroBatch> rows = job_.model->NewMicroBatch();
    for (size_t t = 0; t < model.sparse_tables.size(); ++t) {
      const SparseTableSpec& table = model.sparse_tables[t];
      rows->sparse[t].keys = KeysOf(strategy_->state(), t);
      rows->sparse[t].rows.resize(rows->sparse[t].keys.size() * table.dim);
    }
    EXPECT_EQ(strategy_->LookUp(*rows), absl::OkStatus());
    for (size_t t = 0; t < model.sparse_tables.size(); ++t) {
      const SparseTableSpec& table = model.sparse_tables[t];
      const int64_t keys = static_cast<int64_t>(rows->sparse[t].keys.size());
      EXPECT_GT(keys, 0);
      file.Add<uint64_t>(table.name + ".keys", "U64", {keys}, rows->sparse[t].keys);
      file.Add<float>(table.name + ".rows", "F32", {keys, int64_t{table.dim}},
                      rows->sparse[t].rows);
    }
    return file.bytes();
  }

  struct Evaluated {
    std::vector<float> probabilities;
    std::vector<float> scores;
    int64_t correct = 0;
    double squared_errors = 0;
  };

  // Evaluates all examples of the job's data.
  Evaluated Evaluate() {
    Evaluated all;
    const TargetScale scale = job_.dataset->info().target.value_or(TargetScale());
    // In the order of the files, whatever was held out.
    v1::JobSpec in_order = spec_;
    in_order.mutable_data()->clear_holdout();
    const PreparedJob data = PrepareJob(in_order, {}, job_.dataset->info().preparation).value();
    constexpr int64_t kAtOnce = 1024;
    for (int64_t begin = 0; begin < kExamples; begin += kAtOnce) {
      std::vector<int64_t> examples(std::min(kAtOnce, kExamples - begin));
      std::iota(examples.begin(), examples.end(), begin);
      Batch batch;
      EXPECT_EQ(data.dataset->Read(examples, batch), absl::OkStatus());
      PassResult pass;
      EXPECT_EQ(engine_.Evaluate(batch, PassOutput::kProbabilities, pass), absl::OkStatus());
      all.probabilities.insert(all.probabilities.end(), pass.probabilities.begin(),
                               pass.probabilities.end());
      all.correct += pass.correct;
      if (!job_.dataset->info().target.has_value()) continue;
      for (size_t i = 0; i < pass.scores.size(); ++i) {
        all.scores.push_back(pass.scores[i]);
        all.squared_errors += std::pow((pass.scores[i] - pass.targets[i]) * scale.deviation, 2);
      }
    }
    return all;
  }

  TargetScale scale() const { return *job_.dataset->info().target; }

 private:
  const v1::JobSpec spec_;
  const PreparedJob job_;
  const std::unique_ptr<LocalStrategy> strategy_;
  StepExecutor engine_;
};

class WritePredictionsTest : public ::testing::Test {
 protected:
  using Table = std::vector<std::vector<std::string>>;

  // Returns the whole text, which comes in parts.
  absl::StatusOr<std::string> Write(const v1::JobSpec& spec, const std::string& exported) {
    std::string text;
    const absl::StatusOr<int64_t> written =
        WritePredictions(spec, folder_.Write("weights", exported), [&](absl::string_view part) {
          absl::StrAppend(&text, part);
          return absl::OkStatus();
        });
    if (!written.ok()) return written.status();
    written_ = *written;
    return text;
  }

  Table Read(const absl::StatusOr<std::string>& text, char separator = ',') {
    Table table;
    EXPECT_TRUE(text.ok()) << text.status();
    if (!text.ok()) return table;
    EXPECT_EQ(text->back(), '\n');
    for (const absl::string_view line :
         absl::StrSplit(absl::string_view(*text).substr(0, text->size() - 1), '\n')) {
      table.push_back(absl::StrSplit(line, separator));
    }
    return table;
  }

  std::string ErrorOf(const v1::JobSpec& spec, const std::string& exported) {
    const absl::Status status = Write(spec, exported).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }

  // Compares a classifier's predictions of its own data with an evaluation of them. The label is in
  // column `label`, or nowhere if below 0.
  void ExpectAsEvaluated(LocalJob& job, int label) {
    const Table table = Read(Write(job.spec(), job.Export()));
    ASSERT_EQ(table.size(), kExamples + 1);
    EXPECT_EQ(written_, kExamples);
    const LocalJob::Evaluated expected = job.Evaluate();
    const size_t classes = expected.probabilities.size() / kExamples;
    const size_t predicted = table[0].size() - classes - 1;
    EXPECT_EQ(table[0][predicted], "predicted");
    int64_t correct = 0;
    for (int i = 0; i < kExamples; ++i) {
      const std::vector<std::string>& row = table[i + 1];
      ASSERT_EQ(row.size(), table[0].size());
      for (size_t c = 0; c < classes; ++c) {
        EXPECT_EQ(NumberOf<float>(row[predicted + 1 + c]), expected.probabilities[i * classes + c]);
      }
      const auto named =
          std::find(table[0].begin(), table[0].end(), "probability_" + row[predicted]);
      EXPECT_NE(named, table[0].end()) << row[predicted];
      if (label >= 0) correct += row[predicted] == row[label];
    }
    if (label >= 0) EXPECT_EQ(correct, expected.correct);
  }

  void ExpectNumbersAsEvaluated(LocalJob& job, int label) {
    const Table table = Read(Write(job.spec(), job.Export()));
    ASSERT_EQ(table.size(), kExamples + 1);
    const LocalJob::Evaluated expected = job.Evaluate();
    double squared_errors = 0;
    for (int i = 0; i < kExamples; ++i) {
      const double predicted = NumberOf<double>(table[i + 1].back());
      EXPECT_EQ(predicted, expected.scores[i] * job.scale().deviation + job.scale().mean);
      if (label >= 0) {
        squared_errors += std::pow(predicted - NumberOf<double>(table[i + 1][label]), 2);
      }
    }
    if (label < 0) return;
    const double rmse = std::sqrt(expected.squared_errors / kExamples);
    EXPECT_NEAR(std::sqrt(squared_errors / kExamples), rmse, 1e-6 * rmse);
  }

  // A table of the columns id, a, city, b, y. `label` gives y for a, b and the city's number.
  std::string WriteTable(const std::string& name,
                         const std::function<std::string(double, double, int)>& label) {
    std::mt19937 random(5);
    std::string text = "id,a,city,b,y\n";
    for (int i = 0; i < kExamples; ++i) {
      const double a = (random() % 1000) / 100.0, b = (random() % 1000) / 500.0 - 1;
      // Some cities are in one record alone, maybe one that is held out.
      const int city = random() % 40 == 0 ? 100 + i : static_cast<int>(random() % 5);
      absl::StrAppend(&text, i, ",", i % 9 == 0 ? "" : absl::StrCat(a), ",c", city, ",", b, ",",
                      label(a, b, city), "\n");
    }
    return folder_.Write(name, text);
  }

  static std::string Csv(const std::string& path, const std::string& more) {
    return absl::StrCat("data { holdout: 0.2 shuffle_holdout: true csv { path: '", path,
                        "' label: 'y' ", more, " } } ");
  }

  const TempFolder folder_;
  int64_t written_ = 0;
};

std::string Species(double a, double b, int city) {
  return a > 6 ? "setosa" : b > 0 ? "virginica" : "versicolor";
}

std::string PlusOrMinus(double a, double b, int city) { return a + 5 * b > city ? "1" : "-1"; }

std::string Price(double a, double b, int city) {
  return absl::StrCat(100 * a + 40 * b + 20 * city);
}

TEST_F(WritePredictionsTest, APerceptronsClassesOfATable) {
  LocalJob job(Parse("model { mlp { hidden: 8 classes: 3 } } " +
                     Csv(WriteTable("a.csv", Species), "numeric: ['b', 'a']")));
  ExpectAsEvaluated(job, 4);
  EXPECT_THAT(Write(job.spec(), job.Export()).value(),
              StartsWith("id,a,city,b,y,predicted,probability_setosa,probability_versicolor,"
                         "probability_virginica\n0,,c"));
}

TEST_F(WritePredictionsTest, ALinearModelsClassesOfColumnsOfBothKinds) {
  const std::string columns = "numeric: 'a' categorical: ['city', 'b']";
  LocalJob two(Parse("model { logistic_regression {} } " +
                     Csv(WriteTable("two.csv", PlusOrMinus), columns)));
  ExpectAsEvaluated(two, 4);
  LocalJob three(Parse("model { logistic_regression { classes: 3 } } " +
                       Csv(WriteTable("three.csv", Species), columns)));
  ExpectAsEvaluated(three, 4);
}

TEST_F(WritePredictionsTest, DeepFmReadsRowsThatWereNeverTrainedAsTheirInitialValues) {
  LocalJob job(Parse("model { deep_fm { embedding_dim: 3 hidden: 4 } } " +
                     Csv(WriteTable("a.csv", PlusOrMinus), "numeric: 'a' categorical: ['city']")));
  ExpectAsEvaluated(job, 4);
}

TEST_F(WritePredictionsTest, NumbersOfATableAreInTheirOwnUnit) {
  const std::string path = WriteTable("a.csv", Price);
  LocalJob mlp(
      Parse("model { mlp { hidden: 8 regression {} } } " + Csv(path, "numeric: ['a', 'b']")));
  ExpectNumbersAsEvaluated(mlp, 4);
  LocalJob linear(
      Parse("model { linear_regression {} } " + Csv(path, "numeric: ['b'] categorical: 'city'")));
  ExpectNumbersAsEvaluated(linear, 4);
  LocalJob deep(Parse("model { deep_fm { embedding_dim: 3 hidden: 4 regression {} } } " +
                      Csv(path, "numeric: ['b'] categorical: 'city'")));
  ExpectNumbersAsEvaluated(deep, 4);
}

TEST_F(WritePredictionsTest, LibsvmExamplesAreCounted) {
  std::string classes, numbers;
  std::mt19937 random(6);
  for (int i = 0; i < kExamples; ++i) {
    const int one = random() % 20 + 1, two = one + random() % 20 + 1;
    const std::string features = absl::StrCat(" ", one, ":1.5 ", two, ":0.25\n");
    absl::StrAppend(&classes, one > 10 ? "+1" : "-1", features);
    absl::StrAppend(&numbers, one * 3 + two, features);
  }
  const auto data = [&](const std::string& name, const std::string& text) {
    return absl::StrCat("data { libsvm { path: '", folder_.Write(name, text), "' } }");
  };
  LocalJob classifier(Parse("model { logistic_regression {} } " + data("a.svm", classes)));
  ExpectAsEvaluated(classifier, -1);
  const Table table = Read(Write(classifier.spec(), classifier.Export()));
  EXPECT_THAT(table[0], ElementsAre("example", "predicted", "probability_-1", "probability_1"));
  EXPECT_EQ(table[kExamples][0], absl::StrCat(kExamples - 1));
  LocalJob regression(Parse("model { linear_regression {} } " + data("b.svm", numbers)));
  ExpectNumbersAsEvaluated(regression, -1);
}

TEST_F(WritePredictionsTest, LibffmExamplesAreCounted) {
  std::string text;
  std::mt19937 random(8);
  for (int i = 0; i < kExamples; ++i) {
    const int one = random() % 9, two = random() % 5;
    // A line in five lacks the second field.
    absl::StrAppend(&text, one > 4 ? "1" : "-1", i % 5 == 0 ? "" : absl::StrCat(" 1:", two, ":1"),
                    " 0:", one, ":1\n");
  }
  const std::string data =
      absl::StrCat("data { libffm { path: '", folder_.Write("a.ffm", text), "' } }");
  LocalJob linear(Parse("model { logistic_regression {} } " + data));
  ExpectAsEvaluated(linear, -1);
  LocalJob deep(Parse("model { deep_fm { embedding_dim: 3 hidden: 4 } } " + data));
  ExpectAsEvaluated(deep, -1);
  const Table table = Read(Write(deep.spec(), deep.Export()));
  EXPECT_THAT(table[0], ElementsAre("example", "predicted", "probability_-1", "probability_1"));
}

TEST_F(WritePredictionsTest, ImagesAreCountedAndNeedNoLabels) {
  std::string pixels, labels;
  std::mt19937 random(7);
  for (int i = 0; i < kExamples; ++i) {
    for (int p = 0; p < 6; ++p) pixels.push_back(static_cast<char>(random() % 256));
    labels.push_back(static_cast<char>(static_cast<uint8_t>(pixels[6 * i]) > 127 ? i % 2 : 3));
  }
  const std::string images = folder_.Write("images", IdxFile({kExamples, 2, 3}, pixels));
  LocalJob job(Parse(absl::StrCat("model { mlp { hidden: 5 classes: 4 } } data { idx { images: '",
                                  images, "' labels: '",
                                  folder_.Write("labels", IdxFile({kExamples}, labels)), "' } }")));
  ExpectAsEvaluated(job, -1);
  v1::JobSpec spec = job.spec();
  spec.mutable_data()->mutable_idx()->clear_labels();
  EXPECT_EQ(Write(spec, job.Export()).value(), Write(job.spec(), job.Export()).value());
  spec.mutable_data()->mutable_idx()->set_images(
      folder_.Write("other", IdxFile({2, 1, 5}, "abcdefghij")));
  EXPECT_THAT(ErrorOf(spec, job.Export()),
              AllOf(HasSubstr("hidden0.weight has shape [5, 6]"), HasSubstr("5 dense features"),
                    HasSubstr("[5, 5]")));
}

// Small tables, by a model that was trained on a larger one.
class OtherTablesTest : public WritePredictionsTest {
 protected:
  OtherTablesTest()
      : job_(Parse("model { mlp { hidden: 8 classes: 3 } } " +
                   Csv(WriteTable("a.csv", Species), "numeric: ['a', 'b']"))) {}

  absl::StatusOr<std::string> WriteOf(const std::string& name, const std::string& text) {
    v1::JobSpec spec = job_.spec();
    spec.mutable_data()->mutable_csv()->set_path(folder_.Write(name, text));
    return Write(spec, job_.Export());
  }
  std::string ErrorOfText(const std::string& text) {
    const absl::Status status = WriteOf("bad.csv", text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }

  LocalJob job_;
};

TEST_F(OtherTablesTest, LabelsNeedNotBeThereAndAreNotRead) {
  const Table without = Read(WriteOf("b.csv", "b,a\n0.5,3\n-0.5,9\n"));
  ASSERT_EQ(without.size(), 3);
  EXPECT_THAT(without[0], ElementsAre("b", "a", "predicted", "probability_setosa",
                                      "probability_versicolor", "probability_virginica"));
  const Table with = Read(WriteOf("b.csv", "y,b,a\nwhatever,0.5,3\n,-0.5,9\n"));
  for (int i : {1, 2}) {
    EXPECT_EQ(std::vector<std::string>(with[i].begin() + 1, with[i].end()), without[i]);
  }
  EXPECT_EQ(with[1][0], "whatever");
  EXPECT_EQ(with[2][0], "");
}

TEST_F(OtherTablesTest, ColumnsStayAsTheyAreWritten) {
  const std::string text =
      "\xef\xbb\xbf\"a\", b ,\"note, of \"\"him\"\"\"\r\n1e0,\" 2\" , \"x\ny\"\r\n\r\n3,,z";
  const std::string written = WriteOf("b.csv", text).value();
  EXPECT_THAT(written,
              AllOf(StartsWith("\"a\", b ,\"note, of \"\"him\"\"\",predicted,probability_setosa"),
                    HasSubstr("\n1e0,\" 2\" , \"x\ny\","), HasSubstr("\n3,,z,")));
  EXPECT_THAT(written, Not(HasSubstr("\r")));
  EXPECT_EQ(written_, 2);
  EXPECT_EQ(WriteOf("b.csv.gz", Gzip(text)).value(), written);
}

TEST_F(OtherTablesTest, ParquetHasTheColumnsThatAreRead) {
  const Table csv = Read(WriteOf("b.csv", "b,a\n0.5,3\n-0.5,\n"));
  const std::string bytes =
      ParquetOfTexts({{"b", {"0.5", "-0.5"}}, {"note", {"x", "y"}}, {"a", {"3", std::nullopt}}});
  EXPECT_EQ(Read(WriteOf("b.parquet", bytes)), csv);
  EXPECT_THAT(ErrorOfText(ParquetOfTexts({{"b", {}}, {"a", {}}})), HasSubstr("has no example"));
}

TEST_F(OtherTablesTest, FilesOfAPatternBecomeOneTable) {
  folder_.Write("part-2.csv", "a,b\n3,1\n");
  const Table table = Read(WriteOf("part-1.csv", "a,b\n1,1\n2,1\n"));
  ASSERT_EQ(table.size(), 3);
  v1::JobSpec spec = job_.spec();
  spec.mutable_data()->mutable_csv()->set_path(folder_.path() + "/part-*.csv");
  const Table both = Read(Write(spec, job_.Export()));
  ASSERT_EQ(both.size(), 4);
  EXPECT_EQ(both[2], table[2]);
  EXPECT_EQ(both[3][0], "3");
  folder_.Write("part-2.csv", "b,a\n3,1\n");
  EXPECT_THAT(ErrorOf(spec, job_.Export()),
              AllOf(HasSubstr("part-2.csv"), HasSubstr("another name than in the first file")));
}

TEST_F(OtherTablesTest, WhatIsWrongIsNamed) {
  EXPECT_THAT(ErrorOfText("aa,b\n1,2\n"), AllOf(HasSubstr("no column 'a'"), HasSubstr("aa")));
  EXPECT_THAT(ErrorOfText("a,b\n1,2\n1,x2\n"),
              AllOf(HasSubstr("bad.csv:3"), HasSubstr("column 'b'")));
  EXPECT_THAT(ErrorOfText("a,b\n1,2,3\n"), AllOf(HasSubstr("bad.csv:2"), HasSubstr("3 fields")));
  EXPECT_THAT(ErrorOfText("a,b\n"), HasSubstr("nothing to predict"));
  EXPECT_THAT(ErrorOfText(""), HasSubstr("is empty"));
  EXPECT_THAT(ErrorOfText("a,b,predicted\n1,2,3\n"),
              HasSubstr("have a column 'predicted' already"));
  EXPECT_THAT(ErrorOfText("a,probability_setosa,b\n1,2,3\n"),
              HasSubstr("have a column 'probability_setosa' already"));
  v1::JobSpec spec = job_.spec();
  spec.mutable_data()->mutable_csv()->set_path(folder_.path() + "/absent.csv");
  EXPECT_EQ(Write(spec, job_.Export()).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(OtherTablesTest, WeightsOfOtherJobsAreRefused) {
  v1::JobSpec spec = job_.spec();
  spec.mutable_model()->mutable_mlp()->set_hidden(0, 9);
  EXPECT_THAT(ErrorOf(spec, job_.Export()), HasSubstr("hidden0.weight has shape [8, 2]"));
  spec = job_.spec();
  spec.mutable_data()->mutable_csv()->mutable_numeric()->SwapElements(0, 1);
  EXPECT_THAT(ErrorOf(spec, job_.Export()), HasSubstr("name the same columns in the same order"));
  ExportedFile without;
  EXPECT_THAT(ErrorOf(job_.spec(), without.bytes()),
              HasSubstr("do not tell how their data were prepared"));
  EXPECT_THAT(ErrorOf(job_.spec(), without.AddMetadata("data_preparation", "{").bytes()),
              HasSubstr("use a newer Muster"));
}

TEST_F(WritePredictionsTest, WithoutAHeaderNoneIsWritten) {
  std::string text;
  std::mt19937 random(8);
  for (int i = 0; i < kExamples; ++i) {
    const double a = (random() % 1000) / 100.0;
    absl::StrAppend(&text, a > 5 ? 2 : 1, ";", a, "\n");
  }
  const LocalJob job(Parse(absl::StrCat(
      "model { logistic_regression {} } data { csv { path: '", folder_.Write("a.csv", text),
      "' label: '1' numeric: '2' no_header: true separator: ';' } }")));
  const Table table = Read(Write(job.spec(), job.Export()), ';');
  ASSERT_EQ(table.size(), kExamples);
  EXPECT_EQ(table[0].size(), 2 + 3);
  for (const std::vector<std::string>& row : table) {
    EXPECT_TRUE(row[2] == "1" || row[2] == "2") << absl::StrJoin(row, ";");
  }
}

TEST_F(WritePredictionsTest, ModelsOfLanguageProgramsAndSyntheticDataAreRefused) {
  EXPECT_THAT(ErrorOf(Parse("model { transformer {} }"), ""), HasSubstr("`muster generate`"));
  EXPECT_THAT(ErrorOf(Parse("model { ngram {} }"), ""), HasSubstr("`muster generate`"));
  EXPECT_THAT(ErrorOf(Parse("model { program {} }"), ""), HasSubstr("runs a program"));
  EXPECT_THAT(ErrorOf(Parse("model { mlp {} } data { synthetic_classification {} }"), ""),
              HasSubstr("synthetic data"));
  const std::string none = ExportedFile().bytes();
  EXPECT_THAT(ErrorOf(Parse("model { mlp {} } data { text {} }"), none),
              HasSubstr("data.text; examples are predicted from"));
}

TEST_F(WritePredictionsTest, AnErrorOfTheSinkEndsIt) {
  const LocalJob job(Parse("model { logistic_regression {} } " +
                           Csv(WriteTable("a.csv", PlusOrMinus), "numeric: 'a'")));
  int calls = 0;
  const auto written = WritePredictions(job.spec(), folder_.Write("weights", job.Export()),
                                        [&](absl::string_view part) {
                                          ++calls;
                                          return absl::ResourceExhaustedError("the disk is full");
                                        });
  EXPECT_EQ(written.status(), absl::ResourceExhaustedError("the disk is full"));
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace muster

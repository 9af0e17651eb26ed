#include "client/init/starter_job.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/base/status_macros.h"
#include "common/text/did_you_mean.h"

namespace muster {
namespace {

using Kind = FoundData::Kind;

constexpr double kHoldout = 0.1;
// With fewer examples the holdout would be empty.
constexpr uint64_t kFewestToHoldOut = 5;
// With fewer records of a class, a random holdout may take too many of them.
constexpr size_t kFewRecords = 20;
constexpr uint32_t kLargestBatch = 64;
// Longest context of a language model.
constexpr uint32_t kLongestContext = 128;
// Columns that a comment names.
constexpr size_t kMostNamed = 8;

absl::string_view NameOf(Kind kind) {
  switch (kind) {
    case Kind::kText:
      return "text";
    case Kind::kTokens:
      return "tokens";
    case Kind::kTable:
      return "a table (CSV)";
    case Kind::kImages:
      return "IDX images";
    case Kind::kLibsvm:
      return "libsvm data";
  }
  return "";
}

// The models that read such data, the most usual first.
std::vector<std::string> ModelsFor(const FoundData& data) {
  switch (data.kind) {
    case Kind::kText:
      return {"transformer", "ngram"};
    case Kind::kTokens:
      return {"transformer"};
    case Kind::kImages:
      return {"mlp"};
    case Kind::kLibsvm:
      return {"logistic_regression"};
    case Kind::kTable:
      break;
  }
  std::vector<std::string> models;
  // DeepFM tells two classes apart, and wants categories; a perceptron wants numbers.
  if (!data.table.categorical.empty() && data.table.classes == 2) models.push_back("deep_fm");
  if (data.table.categorical.empty()) models.push_back("mlp");
  models.push_back("logistic_regression");
  if (!data.table.numeric.empty() && !data.table.categorical.empty()) models.push_back("mlp");
  return models;
}

absl::StatusOr<std::string> ChooseModel(const FoundData& data, const std::string& asked_for) {
  const std::vector<std::string> fitting = ModelsFor(data);
  if (asked_for.empty()) return fitting[0];
  const std::string model = absl::AsciiStrToLower(absl::StrReplaceAll(asked_for, {{"-", "_"}}));
  if (std::find(fitting.begin(), fitting.end(), model) != fitting.end()) return model;
  const std::vector<std::string> known = {"transformer", "ngram", "mlp", "deep_fm",
                                          "logistic_regression"};
  if (std::find(known.begin(), known.end(), model) == known.end()) {
    return absl::InvalidArgumentError(absl::StrCat("--model is \"", asked_for, "\"; it is one of ",
                                                   absl::StrJoin(known, ", "),
                                                   DidYouMean(model, known)));
  }
  std::string why;
  if (data.kind == Kind::kTable && model == "deep_fm") {
    why = absl::StrCat(" of ", data.table.categorical.size(), " columns of categories and ",
                       data.table.classes,
                       " classes (deep_fm needs at least one such column, and two classes)");
  } else if (data.kind == Kind::kTable && model == "mlp") {
    why = " without columns of numbers";
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--model is ", model, ", but ", data.path, " is ", NameOf(data.kind), why, ", which ",
      absl::StrJoin(fitting, " and "), fitting.size() == 1 ? " reads" : " read"));
}

uint32_t PowerOfTwoBelow(uint64_t value, uint32_t most) {
  uint32_t power = 1;
  while (power * 2 <= std::min<uint64_t>(value, most)) power *= 2;
  return power;
}

// Some columns by name, and how many more there are.
std::string Listed(const std::vector<std::string>& columns) {
  std::vector<std::string> names;
  for (const std::string& name : columns) {
    if (names.size() == kMostNamed) break;
    names.push_back(name.empty() ? "one without a name" : name);
  }
  std::string list = absl::StrJoin(names, ", ");
  if (columns.size() > names.size()) {
    absl::StrAppend(&list, " and ", columns.size() - names.size(), " more");
  }
  return list;
}

void AddTable(const FoundData& data, const std::string& model, StarterJob& job) {
  const CsvGuess& table = data.table;
  v1::CsvData& csv = *job.spec.mutable_data()->mutable_csv();
  csv.set_path(data.path);
  csv.set_label(table.label);
  csv.mutable_numeric()->Assign(table.numeric.begin(), table.numeric.end());
  std::vector<std::string> left_out;
  if (!table.left_out.empty()) {
    left_out.push_back(
        absl::StrCat("Left out, as they only tell records apart: ", Listed(table.left_out)));
  }
  if (!table.not_nameable.empty()) {
    left_out.push_back(absl::StrCat("Left out, as their names occur twice or are not UTF-8: ",
                                    Listed(table.not_nameable)));
  }
  if (model != "mlp") {
    csv.mutable_categorical()->Assign(table.categorical.begin(), table.categorical.end());
  } else if (!table.categorical.empty()) {
    left_out.push_back(
        absl::StrCat("Left out, as mlp reads only numbers: ", Listed(table.categorical)));
  }
  csv.set_no_header(!table.header);
  if (table.separator != ',') csv.set_separator(std::string(1, table.separator));
  job.comments["data.csv.label"] = absl::StrCat(
      "The column to predict, guessed ", table.label_reason, "; ", table.classes, " classes",
      data.files > 1 ? absl::StrCat(" in the first of ", data.files, " files.") : ".");
  if (!left_out.empty()) {
    job.comments[table.numeric.empty() ? "data.csv.categorical" : "data.csv.numeric"] =
        absl::StrJoin(left_out, "\n");
  }
}

// Holds out the end of a text.
void HoldOutEnd(StarterJob& job) {
  job.spec.mutable_data()->set_holdout(kHoldout);
  job.comments["data.holdout"] = "A tenth of the data, its end, is kept to evaluate on.";
}

// Holds out a random share of examples of classes, as they are often sorted by class.
void HoldOutRandomShare(const FoundData& data, StarterJob& job) {
  if (data.examples < kFewestToHoldOut) {
    job.comments["data"] = absl::StrCat(
        "No records are kept to evaluate on, as there are so few; of ", kFewestToHoldOut,
        " or more,\n`holdout: 0.1` and `shuffle_holdout: true` keep a random tenth.");
    return;
  }
  job.spec.mutable_data()->set_holdout(kHoldout);
  job.spec.mutable_data()->set_shuffle_holdout(true);
  job.comments["data.holdout"] = "A tenth of the data, drawn at random, is kept to evaluate on.";
  if (data.kind == Kind::kTable && data.table.fewest_records < kFewRecords) {
    absl::StrAppend(
        &job.comments["data.holdout"], "\nA class has only ", data.table.fewest_records,
        " of the records looked at. If all of them are held out, the model\n"
        "cannot learn the class; if none is, the evaluation does not cover it. Another `seed`\n"
        "holds out other records.");
  }
}

// Data, and models of classes.
void AddClasses(const FoundData& data, const std::string& model, StarterJob& job) {
  v1::ModelSpec& spec = *job.spec.mutable_model();
  v1::DataSpec& reader = *job.spec.mutable_data();
  uint32_t classes = data.classes;
  if (data.kind == Kind::kTable) {
    AddTable(data, model, job);
    classes = data.table.classes;
  } else if (data.kind == Kind::kImages) {
    reader.mutable_idx()->set_images(data.path);
    reader.mutable_idx()->set_labels(data.labels);
  } else {
    reader.mutable_libsvm()->set_path(data.path);
    reader.mutable_libsvm()->set_zero_based(data.zero_based);
  }
  HoldOutRandomShare(data, job);
  v1::OptimizerSpec& optimizer = *job.spec.mutable_optimizer();
  if (model == "deep_fm") {
    spec.mutable_deep_fm()->set_embedding_dim(8);
    spec.mutable_deep_fm()->add_hidden(64);
    spec.mutable_deep_fm()->add_hidden(32);
    optimizer.set_name("adagrad");
    optimizer.set_learning_rate(0.02f);
  } else if (model == "logistic_regression") {
    spec.mutable_logistic_regression()->set_classes(classes);
    optimizer.set_name("adagrad");
    optimizer.set_learning_rate(0.1f);
  } else {
    spec.mutable_mlp()->add_hidden(data.kind == Kind::kImages ? 256 : 64);
    spec.mutable_mlp()->set_classes(classes);
    optimizer.set_name("adam");
    optimizer.set_learning_rate(data.kind == Kind::kImages ? 0.001f : 0.01f);
  }
  const double training = static_cast<double>(data.examples) * (1 - kHoldout);
  const uint32_t batch = PowerOfTwoBelow(static_cast<uint64_t>(training / 10), kLargestBatch);
  job.spec.set_batch_size(batch);
  job.spec.mutable_stop()->set_epochs(data.examples < 10000 ? 20 : 5);
}

void AddNgram(const FoundData& data, StarterJob& job) {
  v1::NgramSpec& ngram = *job.spec.mutable_model()->mutable_ngram();
  ngram.set_orders(5);
  ngram.set_embedding_dim(16);
  ngram.set_hidden(128);
  job.spec.mutable_data()->mutable_text()->set_path(data.path);
  job.spec.mutable_optimizer()->set_name("adagrad");
  job.spec.mutable_optimizer()->set_learning_rate(0.1f);
  const double training = static_cast<double>(data.examples) * (1 - kHoldout);
  job.spec.set_batch_size(PowerOfTwoBelow(static_cast<uint64_t>(training / 10), 1024));
  job.spec.mutable_stop()->set_steps(500);
  HoldOutEnd(job);
}

void AddTransformer(const FoundData& data, StarterJob& job) {
  v1::TransformerSpec& model = *job.spec.mutable_model()->mutable_transformer();
  model.set_layers(4);
  model.set_width(128);
  model.set_heads(4);
  model.set_norm(v1::TransformerSpec::RMS_NORM);
  model.set_positions(v1::TransformerSpec::ROTARY);
  model.set_activation(v1::TransformerSpec::SWIGLU);
  model.set_no_biases(true);
  // A token file has up to 4 bytes a token, and its tokenizer.
  const uint64_t tokens = data.kind == Kind::kTokens ? data.examples / 4 : data.examples;
  // Some sequences are held out, and a few make a step.
  model.set_context(std::max(2u, PowerOfTwoBelow(tokens / 40, kLongestContext)));
  job.spec.mutable_data()->mutable_sequences()->set_path(data.path);
  if (data.kind == Kind::kText) {
    job.spec.mutable_data()->mutable_sequences()->set_tokenizer("bytes");
    job.comments["data.sequences.tokenizer"] =
        "Or a tokenizer.json, as `muster tokenizer train` writes it.";
  }
  job.spec.mutable_optimizer()->set_name("adamw");
  job.spec.mutable_optimizer()->set_learning_rate(0.003f);
  job.spec.mutable_schedule()->set_name("cosine");
  job.spec.mutable_schedule()->set_warmup_steps(50);
  job.spec.mutable_schedule()->set_final_fraction(0.1f);
  job.spec.mutable_clipping()->set_by_global_norm(1);
  const double sequences = static_cast<double>(tokens) / model.context() * (1 - kHoldout);
  job.spec.set_batch_size(PowerOfTwoBelow(static_cast<uint64_t>(sequences / 2), 16));
  job.spec.mutable_stop()->set_steps(500);
  HoldOutEnd(job);
}

// A file's name without its endings; of a pattern what stands before its first wildcard.
std::string JobName(std::string path) {
  path.resize(std::min(path.size(), path.find_first_of("*?[{")));
  while (absl::EndsWith(path, "-") || absl::EndsWith(path, "_")) path.pop_back();
  std::string name = std::filesystem::path(path).filename().string();
  if (name.empty()) name = std::filesystem::path(path).parent_path().filename().string();
  name = name.substr(0, name.find('.', 1));
  return name.empty() ? "job" : name;
}

}  // namespace

absl::StatusOr<StarterJob> MakeStarterJob(const FoundData& data, const std::string& model_asked) {
  if (data.kind == Kind::kTable) {
    const CsvGuess& table = data.table;
    if (table.label.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          data.path,
          " is a table, but none of its columns looks like classes to predict (whole numbers from "
          "0, -1 and +1, or texts; at least two different values, none missing): it has ",
          Listed(table.numeric), table.numeric.empty() || table.categorical.empty() ? "" : ", ",
          Listed(table.categorical)));
    }
    if (table.numeric.empty() && table.categorical.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          data.path, " is a table with no column to learn \"", table.label,
          "\" from: the other columns only number the records, or have no unique name"));
    }
  }
  MUSTER_ASSIGN_OR_RETURN(const std::string model, ChooseModel(data, model_asked));
  StarterJob job;
  job.spec.set_name(JobName(data.path));
  if (model == "transformer") {
    AddTransformer(data, job);
  } else if (model == "ngram") {
    AddNgram(data, job);
  } else {
    AddClasses(data, model, job);
  }
  job.spec.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
  job.spec.set_workers(1);
  job.spec.set_seed(1);
  job.comments["update.dense"] = "Or ALL_REDUCE, which needs no servers.";
  job.comments["workers"] = "More workers train faster; each takes a slot of the cluster.";
  job.comments["batch_size"] = "Examples of one step, over all workers.";
  job.comments["stop"] = "Train longer once the loss falls.";
  return job;
}

}  // namespace muster

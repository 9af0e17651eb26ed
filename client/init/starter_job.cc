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
#include "client/init/comment.h"
#include "client/init/table_job.h"
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
constexpr uint64_t kTextSteps = 500;
// Evaluations of a training, and how many of them in a row may be no better than the best before.
constexpr uint64_t kEvaluations = 20;
constexpr uint32_t kPatience = 5;
// Held-out examples that an evaluation takes at most; of long ones, sequences, fewer.
constexpr uint64_t kMostEvaluated = 10000;
constexpr uint64_t kMostEvaluatedSequences = 256;

absl::string_view NameOf(Kind kind) {
  switch (kind) {
    case Kind::kText:
      return "text";
    case Kind::kTokens:
      return "tokens";
    case Kind::kDocuments:
      return "documents";
    case Kind::kTable:
      return "a table";
    case Kind::kImages:
      return "IDX images";
    case Kind::kLibsvm:
      return "libsvm data";
    case Kind::kLibffm:
      return "libffm data";
  }
  return "";
}

// The models that read such data, the most usual first.
std::vector<std::string> ModelsFor(const FoundData& data) {
  switch (data.kind) {
    case Kind::kText:
      return {"transformer", "ngram"};
    case Kind::kTokens:
    case Kind::kDocuments:
      return {"transformer"};
    case Kind::kImages:
      return {"mlp"};
    case Kind::kLibsvm:
      return {"logistic_regression"};
    case Kind::kLibffm:
      // DeepFM tells two classes apart by one feature of each field.
      return data.one_per_field && data.classes == 2
                 ? std::vector<std::string>{"deep_fm", "logistic_regression"}
                 : std::vector<std::string>{"logistic_regression"};
    case Kind::kTable:
      break;
  }
  return ModelsForTable(data.table);
}

absl::StatusOr<std::string> ChooseModel(const FoundData& data, const std::string& asked_for) {
  const std::vector<std::string> fitting = ModelsFor(data);
  if (asked_for.empty()) return fitting[0];
  const std::string model = absl::AsciiStrToLower(absl::StrReplaceAll(asked_for, {{"-", "_"}}));
  if (std::find(fitting.begin(), fitting.end(), model) != fitting.end()) return model;
  const std::vector<std::string> known = {
      "transformer", "ngram", "mlp", "deep_fm", "logistic_regression", "linear_regression"};
  if (std::find(known.begin(), known.end(), model) == known.end()) {
    return absl::InvalidArgumentError(absl::StrCat("--model is \"", asked_for, "\"; it is one of ",
                                                   absl::StrJoin(known, ", "),
                                                   DidYouMean(model, known)));
  }
  std::string why;
  if (data.kind == Kind::kTable && model == "deep_fm") {
    why = absl::StrCat(" of ", data.table.categorical.size(), " columns of categories and ",
                       data.table.classes,
                       " classes (deep_fm needs at least one such column, and two classes or a "
                       "number to predict)");
  } else if (data.kind == Kind::kTable && model == "logistic_regression") {
    why = " whose column to predict has no classes";
  } else if (data.kind == Kind::kTable && model == "linear_regression") {
    why = " whose column to predict has no numbers";
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

// Holds out the end of a text.
void HoldOutEnd(StarterJob& job) {
  job.spec.mutable_data()->set_holdout(kHoldout);
  AddComment("data.holdout", "A tenth of the data, its end, is kept to evaluate on.", job.comments);
}

// Holds out a random share of examples, as they are often sorted.
void HoldOutRandomShare(const FoundData& data, bool predicts_number, StarterJob& job) {
  if (data.examples < kFewestToHoldOut) {
    AddComment("data",
               absl::StrCat("No records are kept to evaluate on, as there are so few; of ",
                            kFewestToHoldOut,
                            " or more, `holdout: 0.1` and `shuffle_holdout: true` keep a random "
                            "tenth."),
               job.comments);
    return;
  }
  job.spec.mutable_data()->set_holdout(kHoldout);
  job.spec.mutable_data()->set_shuffle_holdout(true);
  AddComment("data.holdout", "A tenth of the data, drawn at random, is kept to evaluate on.",
             job.comments);
  if (data.kind == Kind::kTable && !predicts_number && data.table.fewest_records < kFewRecords) {
    AddComment("data.holdout",
               absl::StrCat("A class has only ", data.table.fewest_records,
                            " of the records looked at. If all of them are held out, the model "
                            "cannot learn the class; if none is, the evaluation does not cover it. "
                            "Another `seed` holds out other records."),
               job.comments);
  }
}

// Evaluates now and then on what is held out, `held_out` examples of a training of `steps`, and
// stops once that gets no better.
void Evaluate(uint64_t steps, double held_out, uint64_t most_evaluated, StarterJob& job) {
  if (job.spec.data().holdout() == 0) return;
  job.spec.mutable_evaluation()->set_every_steps(std::max<uint64_t>(1, steps / kEvaluations));
  AddComment("evaluation", "Steps between evaluations on what is held out.", job.comments);
  if (held_out > static_cast<double>(most_evaluated)) {
    job.spec.mutable_evaluation()->set_max_examples(most_evaluated);
  }
  job.spec.mutable_stop()->set_patience(kPatience);
  AddComment("stop.patience",
             absl::StrCat("Stops early once ", kPatience,
                          " evaluations in a row are no better than the best before."),
             job.comments);
}

// The model of a table, images, libsvm or libffm data, and its optimizer.
void AddModel(const FoundData& data, const std::string& model, bool predicts_number,
              StarterJob& job) {
  v1::ModelSpec& spec = *job.spec.mutable_model();
  v1::OptimizerSpec& optimizer = *job.spec.mutable_optimizer();
  const bool images = data.kind == Kind::kImages;
  const uint32_t classes = data.kind == Kind::kTable ? data.table.classes : data.classes;
  if (model == "deep_fm") {
    spec.mutable_deep_fm()->set_embedding_dim(8);
    spec.mutable_deep_fm()->add_hidden(64);
    spec.mutable_deep_fm()->add_hidden(32);
    if (predicts_number) spec.mutable_deep_fm()->mutable_regression();
    optimizer.set_name("adagrad");
    optimizer.set_learning_rate(0.02f);
  } else if (model == "mlp") {
    spec.mutable_mlp()->add_hidden(images ? 256 : 64);
    if (predicts_number) {
      spec.mutable_mlp()->mutable_regression();
    } else {
      spec.mutable_mlp()->set_classes(classes);
    }
    optimizer.set_name("adam");
    optimizer.set_learning_rate(images ? 0.001f : 0.01f);
  } else {
    if (predicts_number) {
      spec.mutable_linear_regression();
    } else {
      spec.mutable_logistic_regression()->set_classes(classes);
    }
    optimizer.set_name("adagrad");
    optimizer.set_learning_rate(0.1f);
  }
}

// Data of examples with a label each, and the models of these.
void AddLabeled(const FoundData& data, const std::string& model, StarterJob& job) {
  v1::DataSpec& reader = *job.spec.mutable_data();
  const bool predicts_number = data.kind == Kind::kTable && PredictsNumber(data.table, model);
  if (data.kind == Kind::kTable) {
    AddTable(data, model, job);
  } else if (data.kind == Kind::kImages) {
    reader.mutable_idx()->set_images(data.path);
    reader.mutable_idx()->set_labels(data.labels);
  } else if (data.kind == Kind::kLibffm) {
    reader.mutable_libffm()->set_path(data.path);
  } else {
    reader.mutable_libsvm()->set_path(data.path);
    reader.mutable_libsvm()->set_zero_based(data.zero_based);
  }
  HoldOutRandomShare(data, predicts_number, job);
  AddModel(data, model, predicts_number, job);
  const double training = static_cast<double>(data.examples) * (1 - kHoldout);
  const uint32_t batch = PowerOfTwoBelow(static_cast<uint64_t>(training / 10), kLargestBatch);
  const uint32_t epochs = data.examples < 10000 ? 20 : 5;
  job.spec.set_batch_size(batch);
  job.spec.mutable_stop()->set_epochs(epochs);
  Evaluate(static_cast<uint64_t>(training * epochs / batch), training / 9, kMostEvaluated, job);
  if (predicts_number) {
    job.spec.mutable_evaluation()->set_metric("rmse");
    AddComment("evaluation.metric",
               "How far predictions are off, as the root of the mean square, in the unit of the "
               "column to predict.",
               job.comments);
  }
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
  job.spec.mutable_stop()->set_steps(kTextSteps);
  HoldOutEnd(job);
  Evaluate(kTextSteps, training / 9, kMostEvaluated, job);
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
  // Tokens of files have up to 4 bytes, and those of texts about as many.
  const bool bytes = data.sequences.tokenizer() == "bytes";
  const uint64_t tokens = bytes ? data.examples : data.examples / 4;
  // Some sequences are held out, and a few make a step.
  model.set_context(std::max(2u, PowerOfTwoBelow(tokens / 40, kLongestContext)));
  *job.spec.mutable_data()->mutable_sequences() = data.sequences;
  if (data.sequences.packing() == v1::SequenceData::WHOLE_DOCUMENTS) {
    AddComment("data.sequences.packing",
               "Documents are not cut, so no answer loses its question to the sequence before.",
               job.comments);
  }
  if (bytes) {
    AddComment("data.sequences.tokenizer",
               "Or a tokenizer.json, as `muster tokenizer train` writes it.", job.comments);
  }
  job.spec.mutable_optimizer()->set_name("adamw");
  job.spec.mutable_optimizer()->set_learning_rate(0.003f);
  job.spec.mutable_schedule()->set_name("cosine");
  job.spec.mutable_schedule()->set_warmup_steps(50);
  job.spec.mutable_schedule()->set_final_fraction(0.1f);
  job.spec.mutable_clipping()->set_by_global_norm(1);
  const double sequences = static_cast<double>(tokens) / model.context() * (1 - kHoldout);
  job.spec.set_batch_size(PowerOfTwoBelow(static_cast<uint64_t>(sequences / 2), 16));
  job.spec.mutable_stop()->set_steps(kTextSteps);
  HoldOutEnd(job);
  Evaluate(kTextSteps, sequences / 9, kMostEvaluatedSequences, job);
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
  if (data.kind == Kind::kTable) MUSTER_RETURN_IF_ERROR(CheckTable(data));
  MUSTER_ASSIGN_OR_RETURN(const std::string model, ChooseModel(data, model_asked));
  StarterJob job;
  job.spec.set_name(JobName(data.path));
  if (model == "transformer") {
    AddTransformer(data, job);
  } else if (model == "ngram") {
    AddNgram(data, job);
  } else {
    AddLabeled(data, model, job);
  }
  job.spec.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
  job.spec.set_workers(1);
  job.spec.set_seed(1);
  AddComment("update.dense", "Or ALL_REDUCE, which needs no servers.", job.comments);
  AddComment("workers", "More workers train faster; each takes a slot of the cluster.",
             job.comments);
  AddComment("batch_size", "Examples of one step, over all workers.", job.comments);
  AddComment("stop", "Train longer once the loss falls.", job.comments);
  return job;
}

}  // namespace muster

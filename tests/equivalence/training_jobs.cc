#include "tests/equivalence/training_jobs.h"

#include <algorithm>
#include <fstream>

#include "common/files/temp_folder.h"

namespace muster {
namespace {

// Without biases: that of the keys has no effect on the loss, so its gradient is rounding error
// alone, which optimizers that divide by a gradient's size turn into steps of any direction.
void SetTransformer(v1::TransformerSpec& spec) {
  spec.set_layers(2);
  spec.set_width(16);
  spec.set_heads(4);
  spec.set_kv_heads(2);
  spec.set_context(8);
  spec.set_norm(v1::TransformerSpec::RMS_NORM);
  spec.set_activation(v1::TransformerSpec::SWIGLU);
  spec.set_feed_forward(24);
  spec.set_no_biases(true);
}

void SetClicks(v1::JobSpec& spec) {
  v1::SyntheticClicksData* clicks = spec.mutable_data()->mutable_synthetic_clicks();
  clicks->set_examples(500);
  clicks->set_fields(4);
  clicks->set_cardinality(30);
  clicks->set_numeric(3);
  clicks->set_seed(11);
}

}  // namespace

const std::vector<std::string>& ModelNames() {
  static const auto* names =
      new std::vector<std::string>{"logistic_regression", "mlp", "ngram", "deep_fm", "transformer"};
  return *names;
}

const std::vector<std::string>& OptimizerNames() {
  static const auto* names = new std::vector<std::string>{
      "sgd",   "momentum", "nesterov", "adagrad", "row_wise_adagrad", "rmsprop", "adam",
      "adamw", "lion",     "muon",     "ftrl"};
  return *names;
}

std::vector<ModelAndOptimizer> ChosenModelsAndOptimizers() {
  const std::vector<std::string> with_rows = {"logistic_regression", "ngram", "deep_fm"};
  const std::vector<std::string> without_rows = {"mlp", "transformer"};
  std::vector<ModelAndOptimizer> chosen;
  for (size_t i = 0; i < OptimizerNames().size(); ++i) {
    chosen.emplace_back(with_rows[i % with_rows.size()], OptimizerNames()[i]);
    chosen.emplace_back(without_rows[i % without_rows.size()], OptimizerNames()[i]);
  }
  return chosen;
}

std::vector<ModelAndOptimizer> OtherModelsAndOptimizers() {
  const std::vector<ModelAndOptimizer> chosen = ChosenModelsAndOptimizers();
  std::vector<ModelAndOptimizer> others;
  for (const std::string& model : ModelNames()) {
    for (const std::string& optimizer : OptimizerNames()) {
      const ModelAndOptimizer pair(model, optimizer);
      if (std::count(chosen.begin(), chosen.end(), pair) == 0) others.push_back(pair);
    }
  }
  return others;
}

std::string WriteTinyText(const TempFolder& folder) {
  const std::string path = folder.path() + "/text";
  std::ofstream file(path);
  for (int i = 0; i < 40; ++i) file << "the quick brown fox number " << i * i << " jumps\n";
  return path;
}

v1::JobSpec TinyJob(const std::string& model, const std::string& optimizer,
                    const std::string& text_path) {
  v1::JobSpec spec;
  if (model == "logistic_regression") {
    spec.mutable_model()->mutable_logistic_regression();
    SetClicks(spec);
  } else if (model == "mlp") {
    spec.mutable_model()->mutable_mlp()->add_hidden(12);
    spec.mutable_model()->mutable_mlp()->add_hidden(8);
    spec.mutable_model()->mutable_mlp()->set_classes(3);
    v1::SyntheticClassificationData* data = spec.mutable_data()->mutable_synthetic_classification();
    data->set_examples(300);
    data->set_features(10);
    data->set_classes(3);
    data->set_seed(12);
  } else if (model == "ngram") {
    spec.mutable_model()->mutable_ngram()->set_orders(3);
    spec.mutable_model()->mutable_ngram()->set_embedding_dim(4);
    spec.mutable_model()->mutable_ngram()->set_hidden(8);
    spec.mutable_data()->mutable_text()->set_path(text_path);
  } else if (model == "transformer") {
    SetTransformer(*spec.mutable_model()->mutable_transformer());
    spec.mutable_data()->mutable_sequences()->set_path(text_path);
  } else {
    spec.mutable_model()->mutable_deep_fm()->set_embedding_dim(4);
    spec.mutable_model()->mutable_deep_fm()->add_hidden(8);
    SetClicks(spec);
  }
  spec.mutable_optimizer()->set_name(optimizer);
  spec.mutable_optimizer()->set_learning_rate(0.02);
  if (model == "transformer") {
    // Some of its gradients start near zero, where rounding gives them their sign: what they are
    // divided by must be larger than that.
    if (optimizer == "rmsprop" || optimizer == "adam" || optimizer == "adamw" ||
        optimizer == "muon") {
      spec.mutable_optimizer()->set_epsilon(1e-2f);
      // At ten times that RMSprop, whose steps do not shrink with the gradients, leaps about.
      if (optimizer == "rmsprop") spec.mutable_optimizer()->set_learning_rate(0.002f);
      // Muon makes small directions of a gradient as large as others, with their rounding errors.
      if (optimizer == "muon") spec.mutable_optimizer()->set_learning_rate(0.002f);
    } else if (optimizer == "adagrad" || optimizer == "row_wise_adagrad") {
      spec.mutable_optimizer()->set_initial_accumulator(0.01f);
    }
  }
  spec.set_workers(2);
  spec.set_batch_size(31);
  spec.mutable_stop()->set_steps(50);
  spec.mutable_update()->set_partitions(3);
  spec.mutable_update()->set_block_bytes(128);
  spec.set_seed(13);
  return spec;
}

v1::JobSpec ByAllReduceInSmallBuckets(v1::JobSpec spec) {
  spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
  spec.mutable_update()->set_sparse(v1::UpdateSpec::ALL_REDUCE);
  spec.mutable_update()->set_first_bucket_bytes(64);
  spec.mutable_update()->set_bucket_bytes(500);
  return spec;
}

}  // namespace muster

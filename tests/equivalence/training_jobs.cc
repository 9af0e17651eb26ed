#include "tests/equivalence/training_jobs.h"

#include <fstream>

namespace muster {
namespace {

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
      new std::vector<std::string>{"logistic_regression", "mlp", "ngram", "deep_fm"};
  return *names;
}

const std::vector<std::string>& OptimizerNames() {
  static const auto* names =
      new std::vector<std::string>{"sgd",     "momentum", "nesterov", "adagrad", "row_wise_adagrad",
                                   "rmsprop", "adam",     "adamw",    "ftrl"};
  return *names;
}

std::string WriteTinyText(const TestFolder& folder) {
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
  } else {
    spec.mutable_model()->mutable_deep_fm()->set_embedding_dim(4);
    spec.mutable_model()->mutable_deep_fm()->add_hidden(8);
    SetClicks(spec);
  }
  spec.mutable_optimizer()->set_name(optimizer);
  spec.mutable_optimizer()->set_learning_rate(0.02);
  spec.set_workers(2);
  spec.set_batch_size(31);
  spec.mutable_stop()->set_steps(50);
  spec.mutable_update()->set_partitions(3);
  spec.mutable_update()->set_block_bytes(128);
  spec.set_seed(13);
  return spec;
}

}  // namespace muster

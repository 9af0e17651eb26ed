#include "tests/harness/jobs.h"

#include <cstdlib>
#include <filesystem>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace muster {

v1::JobSpec ParseJobOrDie(const std::string& text) {
  v1::JobSpec spec;
  if (!google::protobuf::TextFormat::ParseFromString(text, &spec)) {
    ADD_FAILURE() << "not a job: " << text;
    std::abort();
  }
  return spec;
}

v1::JobSpec SmallJob() {
  return ParseJobOrDie(R"pb(
    name: "small"
    model { mlp { hidden: 32 classes: 4 } }
    data {
      synthetic_classification { examples: 2000 features: 20 classes: 4 seed: 3 }
      holdout: 0.2
    }
    optimizer { name: "sgd" learning_rate: 0.1 }
    update {
      dense: PARAMETER_SERVER
      sparse: PARAMETER_SERVER
      durability: CHECKPOINT
      deterministic: true
      partitions: 4
      block_bytes: 1024
    }
    workers: 2
    batch_size: 32
    stop { steps: 100 }
    seed: 7
  )pb");
}

std::string SharedData() {
  const char* folder = std::getenv("MUSTER_SHARED_DATA");
  return folder != nullptr && std::filesystem::exists(folder) ? folder : "";
}

}  // namespace muster

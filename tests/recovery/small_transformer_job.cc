#include "tests/recovery/small_transformer_job.h"

#include <fstream>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "tests/harness/endless_job.h"
#include "tests/harness/jobs.h"

namespace muster {

v1::JobSpec SmallTransformerJob(v1::UpdateSpec::Road road) {
  const std::string path = testing::TempDir() + "/text.txt";
  std::ofstream text(path);
  for (int line = 0; line < 2000; ++line) text << "line " << line * line % 997 << "\n";
  v1::JobSpec spec = ParseJobOrDie(R"pb(
    name: "small-transformer"
    model {
      transformer { layers: 2 width: 16 heads: 2 context: 16 dropout: 0.1 attention_dropout: 0.1 }
    }
    data {
      sequences {}
      holdout: 0.1
    }
    optimizer { name: "adamw" learning_rate: 0.001 average_decay: 0.75 state_type: BF16 }
    clipping { by_global_norm: 0.5 }
    update { deterministic: true partitions: 4 block_bytes: 4096 }
    workers: 2
    batch_size: 4
    micro_batches: 2
    seed: 11
  )pb");
  spec.mutable_data()->mutable_sequences()->set_path(path);
  spec.mutable_update()->set_dense(road);
  return Endless(std::move(spec), kTransformerCheckpointSteps);
}

}  // namespace muster

#ifndef MUSTER_COMMON_JOB_TEST_JOBS_H_
#define MUSTER_COMMON_JOB_TEST_JOBS_H_

#include "proto/job.pb.h"

namespace muster {

// A small valid job on synthetic data, for tests: BSP, 2 workers, 2 partitions, 10 steps.
inline v1::JobSpec SmallJob() {
  v1::JobSpec spec;
  spec.set_name("small");
  v1::MlpSpec& mlp = *spec.mutable_model()->mutable_mlp();
  mlp.add_hidden(16);
  mlp.set_classes(3);
  v1::SyntheticClassificationData& data = *spec.mutable_data()->mutable_synthetic_classification();
  data.set_examples(100);
  data.set_features(8);
  data.set_classes(3);
  spec.mutable_data()->set_holdout(0.2);
  spec.mutable_optimizer()->set_name("sgd");
  spec.mutable_optimizer()->set_learning_rate(0.1f);
  spec.mutable_update()->set_partitions(2);
  spec.set_workers(2);
  spec.set_batch_size(8);
  spec.mutable_stop()->set_steps(10);
  return spec;
}

// The same job by all-reduce, without servers.
inline v1::JobSpec AllReduceJob() {
  v1::JobSpec spec = SmallJob();
  spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
  return spec;
}

// A job of 2 processes, each of which runs a program.
inline v1::JobSpec ProgramJob() {
  v1::JobSpec spec;
  spec.set_name("program");
  v1::ProgramSpec& program = *spec.mutable_model()->mutable_program();
  program.add_command("true");
  program.set_memory_bytes(uint64_t{256} << 20);
  spec.set_workers(2);
  return spec;
}

// A job with dense parameters by all-reduce and a sparse table on servers.
inline v1::JobSpec HybridJob() {
  v1::JobSpec spec = AllReduceJob();
  spec.mutable_update()->set_sparse(v1::UpdateSpec::PARAMETER_SERVER);
  spec.mutable_model()->mutable_deep_fm()->set_embedding_dim(4);
  v1::SyntheticClicksData& clicks = *spec.mutable_data()->mutable_synthetic_clicks();
  clicks.set_examples(100);
  clicks.set_fields(3);
  clicks.set_cardinality(50);
  return spec;
}

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_TEST_JOBS_H_

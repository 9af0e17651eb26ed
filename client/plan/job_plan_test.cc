#include "client/plan/job_plan.h"

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/job_text/fill_message.h"
#include "client/job_text/parse_yaml.h"
#include "client/job_text/print_yaml.h"
#include "client/plan/effective_job.h"
#include "client/plan/plan_output.h"
#include "common/job/job_validator.h"
#include "common/optim/optimizer.h"
#include "common/text/format_bytes.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

v1::JobSpec Job(const std::string& text) {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  spec.mutable_stop()->set_steps(10);
  return spec;
}

v1::JobSpec Gpt(const std::string& more = "") {
  return Job(
      absl::StrCat("name: 'g' model { transformer { layers: 2 width: 64 heads: 2 context: 32",
                   " } } data { sequences { path: 't' tokenizer: 'bytes' } } ",
                   "optimizer { name: 'adamw' learning_rate: 0.1 } batch_size: 8 ", more));
}

absl::StatusOr<JobPlan> PlanOf(const v1::JobSpec& spec, const WorkerProcessors& processors = {}) {
  return PlanJob(spec, SizeOfData(spec.data()), processors);
}

// A step of an optimizer from fixed numbers.
std::vector<float> StepOf(const v1::OptimizerSpec& spec) {
  const auto optimizer = CreateOptimizer(spec, Granularity::kRow);
  EXPECT_TRUE(optimizer.ok()) << spec.DebugString() << optimizer.status();
  if (!optimizer.ok()) return {};
  const std::vector<float> gradient = {0.5f, -1, 0, 1e-4f};
  std::vector<float> weights = {1, 2, -3, 0};
  std::vector<float> state((*optimizer)->state_floats(4));
  (*optimizer)->InitState(4, absl::MakeSpan(state));
  for (uint64_t step = 1; step <= 3; ++step) {
    (*optimizer)
        ->Apply({.learning_rate = 0.1f, .step = step}, gradient, absl::MakeSpan(weights),
                absl::MakeSpan(state));
  }
  return weights;
}

TEST(EffectiveJobTest, TrainsAsTheJobThatItIsMadeOf) {
  for (const char* name : {"sgd", "momentum", "nesterov", "adagrad", "row_wise_adagrad", "rmsprop",
                           "adam", "adamw", "ftrl"}) {
    v1::JobSpec spec = Gpt();
    spec.mutable_optimizer()->set_name(name);
    const auto plan = PlanOf(spec);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const v1::JobSpec effective = EffectiveJob(*plan);
    EXPECT_TRUE(ValidateJob(effective).ok()) << ValidateJob(effective);
    std::vector<const google::protobuf::FieldDescriptor*> options;
    effective.optimizer().GetReflection()->ListFields(effective.optimizer(), &options);
    // Its name and its rate, and one option at least.
    EXPECT_GT(options.size(), 2) << name;
    EXPECT_EQ(StepOf(effective.optimizer()), StepOf(spec.optimizer())) << name;
  }
}

TEST(EffectiveJobTest, HasTheValuesThatLeftOutFieldsStandFor) {
  v1::JobSpec spec = Gpt();
  spec.mutable_optimizer()->set_beta1(0.5f);
  const auto plan = PlanOf(spec);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const v1::JobSpec effective = EffectiveJob(*plan);
  EXPECT_EQ(effective.optimizer().beta1(), 0.5f);
  EXPECT_EQ(effective.optimizer().beta2(), 0.999f);
  EXPECT_EQ(effective.model().transformer().feed_forward(), 256);
  EXPECT_EQ(effective.model().transformer().vocabulary(), 256);
  EXPECT_EQ(effective.update().dense(), v1::UpdateSpec::PARAMETER_SERVER);
  EXPECT_EQ(effective.update().block_bytes(), 1 << 20);
  EXPECT_EQ(effective.checkpoint().keep(), 2);
  const std::string yaml = PrintYaml(effective);
  const auto root = ParseYaml(yaml, "job");
  ASSERT_TRUE(root.ok()) << root.status();
  v1::JobSpec read;
  ASSERT_TRUE(FillMessage(*root, "job", read).ok()) << yaml;
  EXPECT_EQ(read.DebugString(), effective.DebugString());
}

TEST(JobPlanTest, KnowsWhatEachRoadMoves) {
  const auto plan = PlanOf(Gpt("workers: 4"));
  ASSERT_TRUE(plan.ok()) << plan.status();
  const double bytes = 4.0 * static_cast<double>(plan->model.dense());
  ASSERT_EQ(plan->traffic.size(), 2u);
  EXPECT_FALSE(plan->traffic[0].all_reduce);
  EXPECT_EQ(plan->traffic[0].sent, bytes);
  EXPECT_EQ(plan->traffic[0].received, bytes);
  EXPECT_EQ(plan->traffic[1].sent, 2.0 * 3 / 4 * bytes);
  const auto half = PlanOf(Gpt("workers: 4 update { wire: BF16 }"));
  EXPECT_EQ(half->traffic[0].sent, bytes / 2);
  EXPECT_EQ(half->traffic[1].sent, 2.0 * 3 / 4 * bytes / 2);
}

TEST(JobPlanTest, SmallBucketsGoToAllAtOnce) {
  const std::string job =
      "model { mlp { hidden: 8 classes: 2 } } data { synthetic_classification { examples: 100 "
      "features: 10 classes: 2 } } optimizer { name: 'sgd' learning_rate: 0.1 } batch_size: 8 "
      "workers: ";
  const double bytes = 4 * (11 * 8 + 9 * 2);
  EXPECT_EQ(PlanOf(Job(job + "2"))->traffic[1].sent, bytes);
  EXPECT_EQ(PlanOf(Job(job + "3"))->traffic[1].sent, 2 * bytes);
  EXPECT_EQ(PlanOf(Job(job + "4"))->traffic[1].received, 3 * bytes);
}

TEST(JobPlanTest, ComparesKindsOfRecomputation) {
  const auto plan = PlanOf(Gpt());
  ASSERT_EQ(plan->recompute.size(), 3u);
  EXPECT_EQ(plan->recompute[0].worker_bytes, plan->memory.worker_bytes());
  EXPECT_GT(plan->recompute[0].activation_bytes, plan->recompute[1].activation_bytes);
  EXPECT_GT(plan->recompute[1].activation_bytes, plan->recompute[2].activation_bytes);
}

TEST(JobPlanTest, RecomputationOnDevicesIsOfTheirMemory) {
  const auto plan = PlanOf(Gpt("compute { device: CUDA recompute: SELECTIVE }"));
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->recompute.size(), 3u);
  EXPECT_EQ(plan->recompute[1].device_bytes, plan->memory.device_bytes());
  for (size_t i = 1; i < 3; ++i) {
    const RecomputePlan& more = plan->recompute[i - 1];
    const RecomputePlan& less = plan->recompute[i];
    EXPECT_EQ(less.worker_bytes, more.worker_bytes);
    EXPECT_GT(more.activation_bytes, less.activation_bytes);
    EXPECT_EQ(more.device_bytes - less.device_bytes, more.activation_bytes - less.activation_bytes);
  }
}

TEST(JobPlanTest, ExpectsRowsOfSparseTables) {
  const std::string job =
      "model { deep_fm { embedding_dim: 7 } } data { synthetic_clicks { examples: 100000 "
      "fields: 4 cardinality: 1 } } optimizer { name: 'sgd' learning_rate: 0.1 } batch_size: 64 "
      "workers: 2 ";
  // Each job also has the traffic of the road that it does not take.
  for (const char* update : {"", "update { dense: ALL_REDUCE sparse: ALL_REDUCE }"}) {
    const auto plan = PlanOf(Job(absl::StrCat(job, update)));
    ASSERT_TRUE(plan.ok()) << plan.status();
    // One value each: four keys with rows of eight floats, to the one other worker.
    EXPECT_EQ(plan->traffic[1].rows_sent, 4 * (8 + 32));
    EXPECT_EQ(plan->traffic[0].rows_sent, 4 * (8 + 8 + 32));
    EXPECT_EQ(plan->traffic[0].rows_received, 4 * 32);
  }
  const auto hybrid =
      PlanOf(Job(absl::StrCat(job, "update { dense: ALL_REDUCE sparse: PARAMETER_SERVER }")));
  ASSERT_TRUE(hybrid.ok()) << hybrid.status();
  EXPECT_EQ(hybrid->traffic[1].rows_sent, 4 * (8 + 8 + 32));
}

TEST(JobPlanTest, AJobThatLeavesWorkersOutHasOne) {
  const std::string clicks =
      "model { deep_fm { embedding_dim: 7 } } data { synthetic_clicks { examples: 100000 "
      "fields: 4 cardinality: 50 } } optimizer { name: 'sgd' learning_rate: 0.1 } batch_size: 64 ";
  const std::string all_reduce = "update { dense: ALL_REDUCE sparse: ALL_REDUCE } ";
  for (const v1::JobSpec& spec :
       {Gpt(), Gpt(all_reduce), Job(clicks), Job(absl::StrCat(clicks, all_reduce))}) {
    v1::JobSpec one = spec;
    one.set_workers(1);
    const auto plan = PlanOf(spec), wanted = PlanOf(one);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(PlanJson(*plan), PlanJson(*wanted));
    EXPECT_EQ(plan->traffic[1].sent, 0);
    EXPECT_EQ(plan->traffic[1].rows_sent, 0);
  }
}

// The coordinator's table, which submit prints, is of the job with its defaults.
TEST(JobPlanTest, DeterministicJobsArePlannedForOneThread) {
  const auto plan = PlanOf(Gpt("update { deterministic: true }"), {.threads = 64});
  const auto wanted =
      PlanOf(Gpt("update { deterministic: true } threads_per_worker: 1"), {.threads = 64});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->memory.worker_bytes(), wanted->memory.worker_bytes());
  EXPECT_LT(plan->memory.worker_bytes(), PlanOf(Gpt(), {.threads = 64})->memory.worker_bytes());
}

TEST(JobPlanTest, RefusesWhatSubmitRefuses) {
  const std::function<void(v1::JobSpec&)> faults[] = {
      [](v1::JobSpec& spec) { spec.clear_model(); },
      [](v1::JobSpec& spec) { spec.clear_data(); },
      [](v1::JobSpec& spec) { spec.mutable_data()->mutable_csv()->set_path("t"); },
      [](v1::JobSpec& spec) { spec.set_batch_size(0); },
      [](v1::JobSpec& spec) { spec.set_workers(4'000'000'000); },
      [](v1::JobSpec& spec) { spec.set_servers(9); },
      [](v1::JobSpec& spec) { spec.mutable_model()->mutable_transformer()->set_heads(3); },
      [](v1::JobSpec& spec) { spec.mutable_model()->mutable_transformer()->set_layers(100'000); },
      [](v1::JobSpec& spec) { spec.mutable_optimizer()->set_name("adman"); },
      [](v1::JobSpec& spec) { spec.mutable_update()->set_partitions(1 << 30); },
      [](v1::JobSpec& spec) { spec.mutable_parallelism()->set_tensor(2); },
      [](v1::JobSpec& spec) { spec.mutable_sparse_tables()->set_keep_from_updates(2); },
      [](v1::JobSpec& spec) { spec.clear_stop(); }};
  for (const auto& fault : faults) {
    v1::JobSpec spec = Gpt();
    fault(spec);
    const absl::Status refused = ValidateJob(spec);
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(PlanOf(spec).status(), refused);
  }
}

TEST(JobPlanTest, RefusesWhatCannotBeLaidOut) {
  v1::JobSpec spec = Gpt("update { dense: ALL_REDUCE sparse: ALL_REDUCE bucket_bytes: 4 }");
  EXPECT_EQ(PlanOf(spec).status(), absl::OkStatus());
  spec.mutable_model()->mutable_transformer()->set_vocabulary(1 << 24);
  EXPECT_THAT(std::string(PlanOf(spec).status().message()),
              HasSubstr("update.bucket_bytes is 4, which cuts"));
}

// Of a schedule for each rank, or of pairs of tensors, there would be too many.
TEST(JobPlanTest, TheLargestJobsTakeAMoment) {
  v1::JobSpec spec = Gpt("workers: 4096 update { dense: ALL_REDUCE sparse: ALL_REDUCE }");
  spec.set_batch_size(4096);
  spec.mutable_model()->mutable_transformer()->set_layers(1024);
  const auto plan = PlanOf(spec);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const double bytes = 4.0 * static_cast<double>(plan->model.dense());
  EXPECT_NEAR(plan->traffic[1].sent, 2.0 * 4095 / 4096 * bytes, 1e-3 * bytes);
}

TEST(PlanOutputTest, SaysItInTables) {
  const auto plan = PlanOf(Gpt("workers: 2"));
  const std::string text = PlanText(*plan);
  EXPECT_THAT(text, HasSubstr("g: transformer, "));
  EXPECT_THAT(text, HasSubstr("activations kept"));
  EXPECT_THAT(text, HasSubstr("selective"));
  EXPECT_THAT(text, HasSubstr("stage 3"));
  EXPECT_THAT(text, HasSubstr("6 N + 6 L C T"));
  EXPECT_THAT(text, HasSubstr("all-reduce"));
  EXPECT_THAT(text, Not(HasSubstr("Assumed")));
  EXPECT_THAT(text, Not(HasSubstr("device")));
}

TEST(PlanOutputTest, SaysWhichProcessorsBf16IsPlannedFor) {
  const v1::JobSpec spec = Gpt("compute { type: BF16 }");
  const auto known = PlanOf(spec, {.multiply_bf16 = true}), most = PlanOf(spec, {});
  EXPECT_LT(known->memory.worker_bytes(), most->memory.worker_bytes());
  EXPECT_EQ(known->recompute[0].worker_bytes, known->memory.worker_bytes());
  EXPECT_THAT(PlanText(*known), HasSubstr("Assumed: all workers' processors have fast"));
  EXPECT_THAT(PlanText(*most), HasSubstr("Assumed: some workers' processors have no fast"));
  EXPECT_THAT(PlanJson(*known), HasSubstr("all workers' processors have fast"));
  EXPECT_THAT(PlanText(*PlanOf(Gpt("compute { type: BF16 device: CUDA }"))),
              Not(HasSubstr("Assumed")));
}

TEST(PlanOutputTest, SaysWhatTokensArePlannedFor) {
  v1::JobSpec spec = Gpt();
  spec.mutable_data()->mutable_sequences()->clear_tokenizer();
  EXPECT_THAT(PlanText(*PlanOf(spec)), HasSubstr("Assumed: tokens are the 256 bytes"));
  spec.mutable_data()->mutable_sequences()->set_tokenizer("tokenizer.json");
  EXPECT_THAT(PlanText(*PlanOf(spec)), HasSubstr("Assumed: the tokenizer has GPT-2's"));
  spec.mutable_model()->mutable_transformer()->set_vocabulary(300);
  EXPECT_THAT(PlanText(*PlanOf(spec)), Not(HasSubstr("Assumed")));
}

TEST(PlanOutputTest, DevicesHaveATableOfTheirOwn) {
  const auto plan = PlanOf(Gpt("compute { device: CUDA }"));
  ASSERT_TRUE(plan.ok()) << plan.status();
  const std::string text = PlanText(*plan);
  EXPECT_THAT(text, HasSubstr(absl::StrCat("Memory of each worker's device\n",
                                           MemoryTable(plan->memory.device, "  "))));
  EXPECT_THAT(text, ContainsRegex("CUDA's own +1.2 GiB"));
  EXPECT_THAT(text, ContainsRegex("recompute +activations +each device"));
  EXPECT_THAT(text, ContainsRegex(absl::StrCat("together +",
                                               FormatBytes(plan->memory.device_bytes()), "\n")));
}

TEST(PlanOutputTest, SaysWhichWayIsAssumedWhereItMatters) {
  const auto over = [](const v1::JobSpec& spec) {
    const auto traffic =
        nlohmann::json::parse(PlanJson(*PlanOf(spec)))["traffic_per_step_and_worker"];
    EXPECT_FALSE(traffic[0].contains("over"));
    return traffic[1]["over"].get<std::string>();
  };
  EXPECT_THAT(PlanText(*PlanOf(Gpt("workers: 3"))), HasSubstr("through shared memory"));
  EXPECT_THAT(PlanText(*PlanOf(Gpt("workers: 2"))), Not(HasSubstr("through shared memory")));
  EXPECT_EQ(over(Gpt("workers: 2")), "shared_memory");
  const v1::JobSpec on_device = Gpt("workers: 3 compute { device: CUDA }");
  EXPECT_THAT(PlanText(*PlanOf(on_device)), Not(HasSubstr("through shared memory")));
  EXPECT_EQ(over(on_device), "devices");
}

TEST(PlanOutputTest, NamesTheRoadAndTheStage) {
  const auto summary = [](const std::string& fields) {
    return PlanSummary(*PlanOf(Gpt("workers: 4 update { dense: ALL_REDUCE } " + fields)));
  };
  EXPECT_THAT(summary(""), EndsWith("4 workers, by all-reduce"));
  EXPECT_THAT(summary("parallelism { zero { stage: 3 } }"),
              EndsWith("4 workers, by all-reduce, zero stage 3 over 4 ranks"));
  EXPECT_THAT(summary("parallelism { zero { stage: 1 shard: 2 } }"),
              EndsWith("zero stage 1 over groups of 2 ranks"));
}

TEST(PlanOutputTest, SaysItInJson) {
  const auto plan = PlanOf(Gpt("workers: 2 compute { recompute: FULL }"));
  const auto json = nlohmann::json::parse(PlanJson(*plan));
  EXPECT_EQ(json["worker_bytes"], plan->memory.worker_bytes());
  uint64_t sum = 0;
  for (const auto& part : json["worker_parts"]) sum += part.get<uint64_t>();
  EXPECT_EQ(sum, plan->memory.worker_bytes());
  EXPECT_EQ(json["recompute"][2]["worker_bytes"], plan->memory.worker_bytes());
  EXPECT_EQ(json["device_bytes"], 0u);
  EXPECT_EQ(json["zero"].size(), 4u);
  EXPECT_EQ(json["traffic_per_step_and_worker"][1]["road"], "all-reduce");
  EXPECT_GT(json["recomputed_flops_per_item"], 0);

  const auto on_device = PlanOf(Gpt("compute { device: CUDA }"));
  const auto device = nlohmann::json::parse(PlanJson(*on_device));
  EXPECT_EQ(device["device_bytes"], on_device->memory.device_bytes());
  sum = 0;
  for (const auto& part : device["device_parts"]) sum += part.get<uint64_t>();
  EXPECT_EQ(sum, on_device->memory.device_bytes());
  EXPECT_EQ(device["recompute"][0]["device_bytes"], on_device->memory.device_bytes());
}

}  // namespace
}  // namespace muster

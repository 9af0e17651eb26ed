#include "client/plan/job_plan.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/job_text/fill_message.h"
#include "client/job_text/parse_yaml.h"
#include "client/job_text/print_yaml.h"
#include "client/plan/effective_job.h"
#include "client/plan/plan_output.h"
#include "client/plan/step_order.h"
#include "common/job/job_validator.h"
#include "common/optim/optimizer.h"
#include "common/text/format_bytes.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
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

v1::JobSpec ByAllReduce(const std::string& more) {
  return Gpt(absl::StrCat("update { dense: ALL_REDUCE sparse: ALL_REDUCE } ", more));
}

std::string Stage(int stage) {
  return absl::StrCat("parallelism { zero { stage: ", stage, " } } ");
}

TEST(JobPlanTest, ComparesStagesOfZero) {
  const auto plan = PlanOf(ByAllReduce("workers: 4"));
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->stages.size(), 4);
  EXPECT_EQ(plan->stages[0].worker_bytes, plan->memory.worker_own_bytes());
  EXPECT_DOUBLE_EQ(plan->stages[0].state_bytes_per_parameter, 16);
  EXPECT_NEAR(plan->stages[1].state_bytes_per_parameter, 8 + 8.0 / 4, 0.5);
  EXPECT_NEAR(plan->stages[2].state_bytes_per_parameter, 4 + 12.0 / 4, 0.5);
  EXPECT_NEAR(plan->stages[3].state_bytes_per_parameter, 16.0 / 4, 0.5);
  EXPECT_EQ(plan->stages[1].published_bytes_per_parameter, 4 + 12.0 / 4);
  EXPECT_EQ(plan->stages[3].published_bytes_per_parameter, 16.0 / 4);
  for (int stage = 1; stage <= 3; ++stage) {
    const auto own = PlanOf(ByAllReduce(absl::StrCat("workers: 4 ", Stage(stage))));
    EXPECT_EQ(plan->stages[stage].worker_bytes, own->memory.worker_own_bytes());
    EXPECT_EQ(own->stages[0].worker_bytes, plan->stages[0].worker_bytes);
  }
  // A job on servers is planned as if it trained by all-reduce.
  EXPECT_EQ(PlanOf(Gpt("workers: 4"))->stages[3].worker_bytes, plan->stages[3].worker_bytes);
  // State is divided within a shard group, which is half of the job here.
  const auto groups = PlanOf(ByAllReduce("workers: 4 parallelism { zero { stage: 2 shard: 2 } }"));
  EXPECT_EQ(groups->stages[3].published_bytes_per_parameter, 16.0 / 2);
}

TEST(JobPlanTest, ComparesNoStagesWhereNothingCanBeDivided) {
  EXPECT_TRUE(PlanOf(Gpt())->stages.empty());
}

// Their bytes a parameter are those of workers on processors.
TEST(JobPlanTest, ComparesWhatDevicesHaveUnderStages) {
  const auto plan = PlanOf(Gpt("workers: 4 compute { device: CUDA }"));
  const auto on_host = PlanOf(Gpt("workers: 4"));
  ASSERT_EQ(plan->stages.size(), 4);
  for (uint32_t stage = 0; stage <= 3; ++stage) {
    v1::JobSpec spec = Gpt("workers: 4 compute { device: CUDA }");
    spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
    spec.mutable_parallelism()->mutable_zero()->set_stage(stage);
    EXPECT_EQ(plan->stages[stage].device_bytes, PlanOf(spec)->memory.device_bytes()) << stage;
    EXPECT_NEAR(plan->stages[stage].state_bytes_per_parameter,
                on_host->stages[stage].state_bytes_per_parameter, 0.01)
        << stage;
  }
  EXPECT_THAT(PlanText(*plan), HasSubstr("Memory of each device by all-reduce, by ZeRO stage"));
}

TEST(JobPlanTest, KnowsWhatAStageMoves) {
  const auto sent = [](const std::string& more) {
    return PlanOf(ByAllReduce("workers: 4 micro_batches: 2 " + more))->traffic[1].sent;
  };
  const double P = static_cast<double>(PlanOf(Gpt())->model.dense());
  EXPECT_NEAR(sent(Stage(1)), 0.75 * P * 8, 0.05 * 0.75 * P * 8);
  EXPECT_NEAR(sent(Stage(2)), 0.75 * P * 12, 0.05 * 0.75 * P * 12);
  EXPECT_GT(sent(Stage(3)), sent(Stage(2)));
}

// Returns the calls that start, one after another.
std::vector<std::string> Starts(const std::vector<OrderedAction>& order) {
  std::vector<std::string> starts;
  for (const OrderedAction& action : order) {
    starts.insert(starts.end(), action.starts.begin(), action.starts.end());
  }
  return starts;
}

std::vector<OrderedAction> OrderOf(const v1::JobSpec& spec) {
  const auto plan = PlanOf(spec);
  EXPECT_TRUE(plan.ok()) << plan.status();
  const auto order = OrderOfStep(*plan);
  EXPECT_TRUE(order.ok()) << order.status();
  return *order;
}

// 4 ranks train two layers of 4 x 4. Sliced weights are gathered before they are read, each
// gradient is scattered once backward has left its unit, and only then do weights change.
TEST(StepOrderTest, IsThatOfTheWorkedExample) {
  const std::vector<OrderedAction> order = OrderOf(
      Job("model { mlp { hidden: 4 classes: 4 } } data { synthetic_classification { examples: 12 "
          "features: 4 classes: 4 } } optimizer { name: 'sgd' learning_rate: 0.1 } batch_size: 12 "
          "workers: 4 update { dense: ALL_REDUCE sparse: ALL_REDUCE } parallelism { zero { stage: "
          "3 } }"));
  std::vector<std::string> lines;
  for (const OrderedAction& action : order) {
    lines.push_back(action.action);
    if (action.unit >= 0) absl::StrAppend(&lines.back(), " ", action.unit);
    for (const std::string& call : action.starts) absl::StrAppend(&lines.back(), ": ", call);
  }
  EXPECT_THAT(
      lines,
      ElementsAre("begin the step: gather 0", "load examples", "acquire for forward 0: gather 1",
                  "forward 0", "release 0", "acquire for backward 1", "begin backward",
                  "forward and backward 1", "release 1", "check the loss",
                  "gradients are ready 1: scatter 1", "acquire for backward 0", "backward 0",
                  "release 0", "gradients are ready 0: scatter 0", "end the step",
                  "wait for the sums", "agree on the step: gather counts", "step the own slices"));
}

TEST(StepOrderTest, GathersAsOftenAsIsPredicted) {
  v1::JobSpec spec = ByAllReduce("workers: 2 micro_batches: 3 " + Stage(3));
  spec.mutable_model()->mutable_transformer()->set_layers(5);
  const std::vector<std::string> starts = Starts(OrderOf(spec));
  // The embedding has a place of its own; blocks and the last unit share two. At each turn the two
  // units at hand are still in place.
  const auto times = [&](const std::string& call) {
    return std::count(starts.begin(), starts.end(), call);
  };
  EXPECT_EQ(times("gather 0"), 1);
  EXPECT_EQ(times("gather 1"), 4);
  EXPECT_EQ(times("gather 3"), 6);
  EXPECT_EQ(times("gather 6"), 3);
  for (int unit = 0; unit <= 6; ++unit) EXPECT_EQ(times(absl::StrCat("scatter ", unit)), 3) << unit;
}

TEST(StepOrderTest, GathersKeptUnitsOnce) {
  const auto starts = [](uint64_t kept_bytes) {
    v1::JobSpec spec = ByAllReduce("workers: 2 micro_batches: 3 " + Stage(3));
    spec.mutable_model()->mutable_transformer()->set_layers(5);
    spec.mutable_parallelism()->mutable_zero()->set_keep_gathered_bytes(kept_bytes);
    return Starts(OrderOf(spec));
  };
  const auto times = [](const std::vector<std::string>& calls, int unit) {
    return std::count(calls.begin(), calls.end(), absl::StrCat("gather ", unit));
  };
  // A block has about 50,000 parameters, so there is room for two, and for the last unit's gain.
  // Three blocks share two places.
  const std::vector<std::string> two = starts(450'000);
  for (const int unit : {0, 1, 2, 4, 6}) EXPECT_EQ(times(two, unit), 1) << unit;
  EXPECT_EQ(times(two, 3), 4);
  EXPECT_EQ(times(two, 5), 3);
  const std::vector<std::string> all = starts(1 << 30);
  for (int unit = 0; unit <= 6; ++unit) EXPECT_EQ(times(all, unit), 1) << unit;
}

TEST(StepOrderTest, EachStageExchangesInItsOwnPlace) {
  const std::string two = "workers: 2 micro_batches: 2 ";
  EXPECT_THAT(Starts(OrderOf(ByAllReduce(two + Stage(1)))),
              ElementsAre("scatter 3", "scatter 2", "scatter 1", "scatter 0", "gather counts",
                          "gather 0", "gather 1", "gather 2", "gather 3"));
  EXPECT_THAT(Starts(OrderOf(ByAllReduce(two + Stage(2)))),
              ElementsAre("scatter 3", "scatter 2", "scatter 1", "scatter 0", "scatter 3",
                          "scatter 2", "scatter 1", "scatter 0", "gather counts", "gather 0",
                          "gather 1", "gather 2", "gather 3"));
  EXPECT_THAT(
      Starts(OrderOf(ByAllReduce("workers: 2 parallelism { zero { stage: 3 redundancy: 1 } }"))),
      testing::IsSupersetOf({"move slices", "gather counts"}));
  EXPECT_EQ(OrderOf(ByAllReduce("workers: 2 parallelism { zero { stage: 1 redundancy: 1 } }"))
                .back()
                .action,
            "step the copies");
  const std::vector<std::string> clipped =
      Starts(OrderOf(ByAllReduce("workers: 4 parallelism { zero { stage: 1 shard: 2 } } "
                                 "clipping { by_global_norm: 1 }")));
  EXPECT_THAT(clipped, Contains("all-reduce slices"));
  EXPECT_THAT(clipped, Contains("gather norms"));
  EXPECT_THAT(Starts(OrderOf(ByAllReduce(two))),
              ElementsAre("all-reduce bucket 0", "gather counts"));
  EXPECT_THAT(Starts(OrderOf(Gpt(two))), ElementsAre("pull 0", "pull 1", "pull 2", "pull 3",
                                                     "push 3", "push 2", "push 1", "push 0"));
  EXPECT_THAT(Starts(OrderOf(ByAllReduce("workers: 1"))), IsEmpty());
}

TEST(StepOrderTest, FitsATerminal) {
  const auto plan = PlanOf(ByAllReduce("workers: 2 " + Stage(1)));
  const std::string text = OrderText(*plan, *OrderOfStep(*plan));
  EXPECT_THAT(text, HasSubstr("by all-reduce, zero stage 1 over 2 ranks"));
  EXPECT_THAT(text, ContainsRegex("0 +acquire for forward +1 block0"));
  EXPECT_THAT(text, HasSubstr("gather 0, …, gather 3"));
  const std::string table = text.substr(text.find("One step"));
  // The ellipsis takes three bytes.
  for (const absl::string_view line : absl::StrSplit(table, '\n')) {
    EXPECT_LE(line.size(), 82) << line;
  }
  const auto json = nlohmann::json::parse(OrderJson(*OrderOfStep(*plan)));
  EXPECT_EQ(json.back()["starts"][3], "gather 3");
}

TEST(StepOrderTest, RefusesWhatNobodyReads) {
  v1::JobSpec spec = ByAllReduce("workers: 2");
  spec.mutable_model()->mutable_transformer()->set_layers(500);
  EXPECT_THAT(std::string(OrderOfStep(*PlanOf(spec)).status().message()),
              HasSubstr("fewer layers or micro-batches"));
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
  EXPECT_THAT(text, ContainsRegex("stage 3 +[0-9.]+ MiB"));
  const std::string tables = text.substr(0, text.find("A step:"));
  for (const absl::string_view line : absl::StrSplit(tables, '\n')) {
    EXPECT_LE(line.size(), 80) << line;
  }
  EXPECT_THAT(text, HasSubstr("6 N + 6 L C T"));
  EXPECT_THAT(text, HasSubstr("all-reduce"));
  EXPECT_THAT(text, Not(HasSubstr("Assumed")));
  EXPECT_THAT(text, Not(HasSubstr("device")));
}

TEST(PlanOutputTest, ShowsTheStagesOfAPipeline) {
  const auto plan = PlanOf(ByAllReduce(
      "workers: 4 micro_batches: 2 parallelism { pipeline: 2 pipeline_layers: [2, 2] }"));
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->pipeline.size(), 2u);
  EXPECT_EQ(plan->memory.worker_own_bytes(), std::max(plan->pipeline[0].memory.worker_own_bytes(),
                                                      plan->pipeline[1].memory.worker_own_bytes()));
  const RoadTraffic& all_reduce = plan->traffic.back();
  ASSERT_EQ(all_reduce.stages.size(), 2u);
  EXPECT_GT(all_reduce.stages[0].data.sent, 0);
  EXPECT_DOUBLE_EQ(all_reduce.sent,
                   (all_reduce.stages[0].total().sent + all_reduce.stages[1].total().sent) / 2);
  const std::string text = PlanText(*plan);
  EXPECT_THAT(text, HasSubstr("Mesh of 4 slots: pipeline 2 x data 2\n"));
  EXPECT_THAT(text, ContainsRegex("pipeline +\\{0, 2\\} \\{1, 3\\} +activations, between"));
  EXPECT_THAT(text, ContainsRegex("0 +embedding, block 0 +[0-9.]+ MiB"));
  EXPECT_THAT(text, ContainsRegex("1 +block 1, head +[0-9.]+ MiB"));
  EXPECT_THAT(text, HasSubstr("Memory of each worker of the stage that needs the most\n"));
  const size_t begin = text.find("Mesh of"), end = text.find("A step:");
  const std::string tables = text.substr(begin, end - begin);
  for (const absl::string_view line : absl::StrSplit(tables, '\n')) {
    EXPECT_LE(line.size(), 80) << line;
  }
  const auto json = nlohmann::json::parse(PlanJson(*plan));
  EXPECT_EQ(json["pipeline"][1]["chunks"][0]["first_layer"], 2);
  EXPECT_EQ(json["traffic_per_step_and_worker"].back()["stages"][1]["pipeline_bytes_sent"],
            all_reduce.stages[1].pipeline.sent);
  EXPECT_THAT(std::string(OrderOfStep(*plan).status().message()), HasSubstr("--schedule"));
}

TEST(PlanOutputTest, ShowsTheMeshAndWhatTravelsAlongEachAxis) {
  const auto plan = PlanOf(ByAllReduce("workers: 4 parallelism { tensor: 2 }"));
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->traffic.size(), 2u);
  const RoadTraffic& all_reduce = plan->traffic[1];
  ASSERT_EQ(all_reduce.stages.size(), 1u);
  const AxisTraffic& axes = all_reduce.stages[0];
  EXPECT_GT(axes.data.sent, 0);
  EXPECT_GT(axes.tensor.sent, 0);
  EXPECT_EQ(all_reduce.sent, axes.data.sent + axes.tensor.sent);
  const std::string text = PlanText(*plan);
  EXPECT_THAT(text, HasSubstr("by all-reduce, tensor 2 with sequence\n"));
  EXPECT_THAT(text, HasSubstr("Mesh of 4 slots: data 2 x tensor 2\n"));
  EXPECT_THAT(text, ContainsRegex("slot +data +tensor\n"));
  EXPECT_THAT(text, ContainsRegex("3 +1 +1\n"));
  EXPECT_THAT(text, ContainsRegex("data +\\{0, 2\\} \\{1, 3\\} +gradients\n"));
  EXPECT_THAT(text, ContainsRegex("tensor +\\{0, 1\\} \\{2, 3\\} +activations"));
  EXPECT_THAT(text, ContainsRegex(absl::StrCat("along tensor +", FormatBytes(axes.tensor.sent))));
  const auto json = nlohmann::json::parse(PlanJson(*plan));
  EXPECT_EQ(json["mesh"]["tensor"], 2);
  EXPECT_EQ(json["traffic_per_step_and_worker"][1]["stages"][0]["tensor_bytes_sent"],
            axes.tensor.sent);
  EXPECT_THAT(PlanText(*PlanOf(Gpt("workers: 4"))), Not(HasSubstr("Mesh")));
  // With whole tokens, activations take more memory.
  const auto tokens_whole =
      PlanOf(ByAllReduce("workers: 4 parallelism { tensor: 2 sequence: false }"));
  EXPECT_GT(tokens_whole->recompute[0].activation_bytes, plan->recompute[0].activation_bytes);
  const auto order = OrderOfStep(*plan);
  ASSERT_TRUE(order.ok()) << order.status();
  const auto forward = std::find_if(order->begin(), order->end(), [](const OrderedAction& action) {
    return action.action == "forward" && action.unit == 1;
  });
  ASSERT_NE(forward, order->end());
  EXPECT_THAT(forward->starts,
              ElementsAre("gather rows", "scatter sums", "gather rows", "scatter sums"));
}

TEST(PlanOutputTest, SaysWhatIsOnDisk) {
  const auto plan =
      PlanOf(ByAllReduce("workers: 2 parallelism { zero { stage: 3 offload: OPTIMIZER_STATE } }"));
  const std::string text = PlanText(*plan);
  EXPECT_THAT(text, HasSubstr(absl::StrCat("Each keeps ", FormatBytes(plan->memory.disk_bytes),
                                           " of optimizer state on disk")));
  EXPECT_THAT(text, HasSubstr("optimizer state, mapped from its file"));
  EXPECT_EQ(nlohmann::json::parse(PlanJson(*plan))["worker_disk_bytes"], plan->memory.disk_bytes);
  EXPECT_THAT(text, Not(HasSubstr("while the workers change")));
  EXPECT_THAT(
      PlanText(*PlanOf(ByAllReduce("workers: 3 min_workers: 1 parallelism { zero { stage: 3 "
                                   "offload: OPTIMIZER_STATE } }"))),
      HasSubstr("on disk (--offload-folder) at most, in its former and its new slice"));
  EXPECT_THAT(PlanText(*PlanOf(Gpt("workers: 2"))), Not(HasSubstr("on disk")));
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
  v1::JobSpec on_servers = Gpt("workers: 3 parallelism { zero { stage: 3 } }");
  on_servers.clear_update();
  const std::string in_flight = PlanText(*PlanOf(on_servers));
  EXPECT_THAT(in_flight, HasSubstr("by parameter servers, zero stage 3\n"));
  EXPECT_THAT(in_flight, HasSubstr("by ZeRO stage; 3 ranks to a shard group\n"));
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

#include "client/plan/plan_output.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/plan/job_plans_for_testing.h"
#include "client/plan/step_order.h"
#include "common/text/format_bytes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(PlanOutputTest, SaysItInTables) {
  const auto plan = PlanOf(Gpt("workers: 2"));
  const std::string text = PlanText(*plan);
  EXPECT_THAT(text, HasSubstr("g: transformer, "));
  EXPECT_THAT(text, HasSubstr("activations kept"));
  EXPECT_THAT(text, HasSubstr("selective"));
  EXPECT_THAT(text, ContainsRegex("stage 3 +[0-9.]+ MiB"));
  EXPECT_THAT(text, ContainsRegex("stage 0 .* 16  nothing\n"));
  const std::string tables = text.substr(0, text.find("A step:"));
  for (const absl::string_view line : absl::StrSplit(tables, '\n')) {
    EXPECT_LE(line.size(), 80) << line;
  }
  EXPECT_THAT(text, HasSubstr("6 N + 6 L C T"));
  EXPECT_THAT(text, HasSubstr("all-reduce"));
  EXPECT_THAT(text, Not(HasSubstr("Assumed")));
  EXPECT_THAT(text, Not(HasSubstr("device")));
}

TEST(PlanOutputTest, SaysHowLongDocumentsAre) {
  DataSize data;
  data.vocabulary = 64;
  data.document_tokens = 3.5;
  data.padding = 0.125;
  const auto plan = PlanJob(Gpt("workers: 2"), data, {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(PlanText(*plan), HasSubstr("(6 N + 6 L C D, N = "));
  EXPECT_THAT(PlanText(*plan), HasSubstr(", D = 3.5 tokens of a document); 12.5 % of the tokens"));
  EXPECT_LT(plan->costs.flops_per_item, PlanOf(Gpt("workers: 2"))->costs.flops_per_item);
  EXPECT_EQ(nlohmann::json::parse(PlanJson(*plan))["document_tokens"], 3.5);
}

TEST(PlanOutputTest, SaysWhatStepsThatAreComparedCost) {
  EXPECT_THAT(PlanText(*PlanOf(Gpt("workers: 2"))), Not(HasSubstr("verify_every")));
  const std::string text = PlanText(*PlanOf(Gpt("workers: 2 verify_every: 50")));
  EXPECT_THAT(text,
              HasSubstr("; one step in 50 is computed twice and compared (verify_every), 2.0 % "
                        "more in all\n"));
  EXPECT_THAT(text, HasSubstr("gradients of another data rank's examples"));
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

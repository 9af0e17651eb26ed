#include "client/plan/plan_output.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "client/plan/mesh_text.h"
#include "client/terminal/format.h"
#include "common/job/job_road.h"
#include "common/job/validation/job_validator.h"
#include "common/mesh/job_mesh.h"
#include "common/mesh/mesh.h"
#include "common/plan/memory/rows_memory.h"
#include "common/plan/size/memory_part.h"
#include "common/text/dump_json.h"
#include "common/text/format_bytes.h"

namespace muster {
namespace {

constexpr char kAssumedWay[] =
    "All-reduce is predicted for workers of one machine, through shared memory; over TCP\n"
    "small buckets of gradients may be sent in another way.\n";

std::string ModelName(const v1::ModelSpec& model) {
  const google::protobuf::FieldDescriptor* const field =
      v1::ModelSpec::descriptor()->FindFieldByNumber(model.model_case());
  return field == nullptr ? "" : field->name();
}

std::string RecomputeName(v1::ComputeSpec::Recompute recompute) {
  return absl::AsciiStrToLower(v1::ComputeSpec::Recompute_Name(recompute));
}

std::string RoadName(const JobPlan& plan, bool all_reduce) {
  if (!all_reduce) return "parameter servers";
  const bool hybrid =
      !plan.model.sparse.empty() && TrainsByAllReduce(plan.spec) && RowsOnServers(plan.spec);
  return hybrid ? "all-reduce, rows on servers" : "all-reduce";
}

// "64.6 MFLOP".
std::string Operations(double flops) {
  static constexpr const char* kUnits[] = {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"};
  size_t unit = 0;
  while (flops >= 999.95 && unit + 1 < std::size(kUnits)) {
    flops /= 1000;
    ++unit;
  }
  return absl::StrCat(FormatNumber(flops), " ", kUnits[unit]);
}

bool OnDevices(const JobPlan& plan) {
  return plan.spec.compute().device() == v1::ComputeSpec::CUDA;
}

std::string RecomputeTable(const JobPlan& plan) {
  const bool on_devices = OnDevices(plan);
  std::vector<std::vector<std::string>> rows = {
      {"recompute", "activations", on_devices ? "each device" : "each worker"}};
  for (const RecomputePlan& one : plan.recompute) {
    rows.push_back({RecomputeName(one.recompute), FormatBytes(one.activation_bytes),
                    FormatBytes(on_devices ? one.device_bytes : one.worker_bytes)});
  }
  return FormatTable(rows);
}

std::string StagesText(const JobPlan& plan) {
  v1::JobSpec spec = plan.spec;
  spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
  spec.mutable_parallelism()->mutable_zero()->set_stage(3);
  const std::string each = OnDevices(plan) ? "each device" : "each worker";
  std::vector<std::vector<std::string>> rows = {
      {"ZeRO", each, "model states", "a parameter", "published", "divided"}};
  static constexpr const char* kDivided[] = {"nothing", "optimizer state", "and gradients",
                                             "and weights"};
  for (const StagePlan& one : plan.stages) {
    rows.push_back({absl::StrCat("stage ", one.stage),
                    FormatBytes(OnDevices(plan) ? one.device_bytes : one.worker_bytes),
                    FormatBytes(one.state_bytes), FormatNumber(one.state_bytes_per_parameter),
                    FormatNumber(one.published_bytes_per_parameter), kDivided[one.stage]});
  }
  return absl::StrCat("Memory of ", each, " by all-reduce, by ZeRO stage; ",
                      SmallestShardGroup(spec), " ranks to a shard group\n", FormatTable(rows),
                      "Model states are weights, gradients and optimizer state without units in "
                      "flight;\npublished are bytes a parameter for Adam, with gradients in 16 "
                      "bits.\n");
}

std::string CostsText(const JobPlan& plan) {
  const StepCosts& costs = plan.costs;
  const std::string item = costs.items_are_tokens ? "token" : "example";
  const double documents = plan.data.document_tokens;
  std::string text = absl::StrCat(
      plan.spec.batch_changes().empty() ? "A step: " : "The largest step: ",
      FormatCount(costs.items), " ", item, "s, ", Operations(costs.flops()),
      costs.items_are_tokens ? "; a " : "; an ", item, " ", Operations(costs.flops_per_item),
      !costs.items_are_tokens ? " (6 N"
      : documents > 0         ? " (6 N + 6 L C D"
                              : " (6 N + 6 L C T",
      ", N = ", FormatCount(costs.multiplied), " that are multiplied",
      documents > 0 ? absl::StrCat(", D = ", FormatNumber(documents), " tokens of a document") : "",
      ")");
  if (costs.recomputed_flops_per_item > 0) {
    absl::StrAppend(&text, ", and ", Operations(costs.recomputed_flops_per_item), " recomputed");
  }
  if (plan.data.padding > 0) {
    absl::StrAppend(&text, "; ", FormatPercent(plan.data.padding), " of the tokens are padding");
  }
  if (const uint64_t every = plan.spec.verify_every(); every > 0) {
    absl::StrAppend(&text, "; one step in ", FormatCount(every),
                    " is computed twice and compared (verify_every), ",
                    FormatPercent(1 / static_cast<double>(every)), " more in all");
  }
  return absl::StrCat(text, "\n");
}

bool DividesTensors(const JobPlan& plan) { return plan.spec.parallelism().tensor() > 1; }

// Returns the layers of the units, such as "embedding, blocks 0-2" or "layers 3-4".
std::string LayersOf(const JobPlan& plan, const UnitRange& units) {
  const auto span = [](absl::string_view one, absl::string_view several, int first, int last) {
    return first == last ? absl::StrCat(one, " ", first)
                         : absl::StrCat(several, " ", first, "-", last);
  };
  if (!plan.model.transformer.has_value()) {
    return span("layer", "layers", units.first, units.end - 1);
  }
  const int head = static_cast<int>(plan.model.transformer->layers) + 1;
  std::vector<std::string> names;
  if (units.first == 0) names.push_back("embedding");
  const int first = std::max(units.first, 1), last = std::min(units.end - 1, head - 1);
  if (first <= last) names.push_back(span("block", "blocks", first - 1, last - 1));
  if (units.end > head) names.push_back("head");
  return absl::StrJoin(names, ", ");
}

// Returns a table of the stages of a pipeline, and of what their workers send.
std::string PipelineStagesText(const JobPlan& plan) {
  const bool by_all_reduce = TrainsByAllReduce(plan.spec);
  const auto road =
      std::find_if(plan.traffic.begin(), plan.traffic.end(),
                   [&](const RoadTraffic& road) { return road.all_reduce == by_all_reduce; });
  std::vector<std::vector<std::string>> rows = {
      {"stage", "layers", "each worker", by_all_reduce ? "data" : "servers", "pipeline"}};
  if (DividesTensors(plan)) rows[0].push_back("tensor");
  for (size_t stage = 0; stage < plan.pipeline.size(); ++stage) {
    const PipelineStagePlan& one = plan.pipeline[stage];
    std::vector<std::string> layers;
    for (const UnitRange& units : one.chunks) layers.push_back(LayersOf(plan, units));
    rows.push_back({absl::StrCat(stage), absl::StrJoin(layers, "; "),
                    FormatBytes(one.memory.worker_own_bytes())});
    if (road == plan.traffic.end()) continue;
    const AxisTraffic& traffic = road->stages[stage];
    rows.back().push_back(FormatBytes(traffic.data.sent));
    rows.back().push_back(FormatBytes(traffic.pipeline.sent));
    if (DividesTensors(plan)) rows.back().push_back(FormatBytes(traffic.tensor.sent));
  }
  return absl::StrCat("Stages; what each worker sends a step, by axis\n", FormatTable(rows));
}

std::string TrafficTable(const JobPlan& plan) {
  const bool rows_move = !plan.model.sparse.empty();
  std::vector<std::vector<std::string>> rows = {{"a step of one worker", "sends", "receives"}};
  if (rows_move) rows[0].insert(rows[0].end(), {"rows sent, about", "rows received"});
  for (const RoadTraffic& road : plan.traffic) {
    rows.push_back(
        {RoadName(plan, road.all_reduce), FormatBytes(road.sent), FormatBytes(road.received)});
    if (rows_move) {
      rows.back().push_back(FormatBytes(road.rows_sent));
      rows.back().push_back(FormatBytes(road.rows_received));
    }
    // Those of a stage are in the table of stages.
    if (!DividesTensors(plan) || road.stages.size() > 1) continue;
    const auto add_axis = [&](const char* axis, const WorkerTraffic& part) {
      rows.push_back({axis, FormatBytes(part.sent), FormatBytes(part.received)});
    };
    add_axis(road.all_reduce ? "  along data" : "  with servers", road.stages[0].data);
    add_axis("  along tensor", road.stages[0].tensor);
  }
  // Two workers send the same either way.
  const bool assumes = plan.spec.workers() > 2 && !OnDevices(plan);
  return absl::StrCat(FormatTable(rows), assumes ? kAssumedWay : "");
}

// Returns what the plan assumes.
std::vector<std::string> Assumptions(const JobPlan& plan) {
  std::vector<std::string> assumptions = plan.data.assumptions;
  if (const std::string clause = VocabularyAssumption(plan.spec, plan.data); !clause.empty()) {
    assumptions.insert(assumptions.begin(), clause);
  }
  if (plan.model.transformer.has_value() && !OnDevices(plan) &&
      plan.spec.compute().type() == v1::ComputeSpec::BF16) {
    assumptions.push_back(plan.processors.multiply_bf16
                              ? "all workers' processors have fast bf16 products, as this "
                                "machine's do; others need more scratch memory"
                              : "some workers' processors have no fast bf16 products, as this "
                                "machine's have none; others need less scratch memory");
  }
  return assumptions;
}

// Returns the sizes of the mesh's axes by name, outermost first.
nlohmann::ordered_json MeshJson(const v1::JobSpec& spec) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  const Mesh mesh = MeshOf(spec);
  for (const auto& [name, axes] : JobAxes()) json[std::string(name)] = mesh.size(axes);
  return json;
}

// Returns the bytes of a worker's step by the mesh's axes.
nlohmann::ordered_json AxesJson(const AxisTraffic& traffic) {
  return {{"data_bytes_sent", traffic.data.sent},
          {"data_bytes_received", traffic.data.received},
          {"tensor_bytes_sent", traffic.tensor.sent},
          {"tensor_bytes_received", traffic.tensor.received},
          {"pipeline_bytes_sent", traffic.pipeline.sent},
          {"pipeline_bytes_received", traffic.pipeline.received}};
}

nlohmann::ordered_json PartsJson(const std::vector<MemoryPart>& parts) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const MemoryPart& part : parts) {
    if (part.bytes > 0) json[part.name] = part.bytes;
  }
  return json;
}

// Says how many of the dense parameters are trained, if some are frozen.
std::string TrainedShare(const ModelSize& model) {
  if (model.trained() == model.dense()) return "";
  return absl::StrCat(", of which ", FormatCount(model.trained()), " are trained");
}

}  // namespace

std::string PlanSummary(const JobPlan& plan) {
  const std::string division = DivisionName(plan.spec);
  return absl::StrCat(
      plan.spec.name().empty() ? "the job" : plan.spec.name(), ": ", ModelName(plan.spec.model()),
      ", ", FormatCount(plan.model.dense()), " dense parameters", TrainedShare(plan.model),
      plan.model.sparse.empty() ? "" : absl::StrCat(" and rows of ", plan.model.row_dim()), "; ",
      plan.spec.workers(), plan.spec.workers() == 1 ? " worker" : " workers", ", by ",
      RoadName(plan, TrainsByAllReduce(plan.spec)), division.empty() ? "" : ", ", division);
}

std::string PlanText(const JobPlan& plan) {
  std::string text = absl::StrCat(PlanSummary(plan), "\n\n");
  if (const std::string mesh = MeshText(plan.spec); !mesh.empty()) {
    absl::StrAppend(&text, mesh, "\n");
  }
  if (!plan.pipeline.empty()) absl::StrAppend(&text, PipelineStagesText(plan), "\n");
  absl::StrAppend(&text, "Memory of each worker",
                  plan.pipeline.empty() ? "" : " of the stage that needs the most", "\n",
                  MemoryTable(plan.memory.worker, "  "), "\n");
  if (plan.memory.worker_own_bytes() < plan.memory.worker_bytes()) {
    absl::StrAppend(&text, "Each must have ", FormatBytes(plan.memory.worker_own_bytes()),
                    "; the rest is mapped: other workers' memory, or a file.\n\n");
  }
  if (plan.memory.disk_bytes > 0) {
    absl::StrAppend(&text, "Each keeps ", FormatBytes(plan.memory.disk_bytes),
                    " of optimizer state on disk (--offload-folder)",
                    DividesAnew(plan.spec) ? " at most, in its former and its new slice while the "
                                             "workers change"
                                           : "",
                    ".\n\n");
  }
  if (!plan.memory.device.empty()) {
    absl::StrAppend(&text, "Memory of each worker's device\n",
                    MemoryTable(plan.memory.device, "  "), "\n");
  }
  if (!plan.recompute.empty()) absl::StrAppend(&text, RecomputeTable(plan), "\n");
  if (plan.memory.server_bytes() > 0) {
    absl::StrAppend(&text, "Memory of all servers together, beside the program\n",
                    MemoryTable(plan.memory.servers, "  "), "\n");
  }
  if (!plan.stages.empty()) absl::StrAppend(&text, StagesText(plan), "\n");
  absl::StrAppend(&text, CostsText(plan), "\n", TrafficTable(plan));
  for (const std::string& assumption : Assumptions(plan)) {
    absl::StrAppend(&text, "\nAssumed: ", assumption, ".\n");
  }
  return text;
}

std::string PlanJson(const JobPlan& plan) {
  nlohmann::ordered_json json = {
      {"job", plan.spec.name()},
      {"model", ModelName(plan.spec.model())},
      {"workers", plan.spec.workers()},
      {"mesh", MeshJson(plan.spec)},
      {"dense_parameters", plan.model.dense()},
      {"trained_parameters", plan.model.trained()},
      {"worker_bytes", plan.memory.worker_bytes()},
      {"worker_own_bytes", plan.memory.worker_own_bytes()},
      {"worker_parts", PartsJson(plan.memory.worker)},
      {"worker_disk_bytes", plan.memory.disk_bytes},
      {"device_bytes", plan.memory.device_bytes()},
      {"device_parts", PartsJson(plan.memory.device)},
      {"server_bytes", plan.memory.server_bytes()},
      {"server_parts", PartsJson(plan.memory.servers)},
      {"recompute", nlohmann::ordered_json::array()},
      {"zero", nlohmann::ordered_json::array()},
      {"items_per_step", plan.costs.items},
      {"item", plan.costs.items_are_tokens ? "token" : "example"},
      {"flops_per_step", plan.costs.flops()},
      {"flops_per_item", plan.costs.flops_per_item},
      {"recomputed_flops_per_item", plan.costs.recomputed_flops_per_item},
      {"document_tokens", plan.data.document_tokens},
      {"padding", plan.data.padding},
      {"traffic_per_step_and_worker", nlohmann::ordered_json::array()},
      {"assumptions", Assumptions(plan)}};
  for (const RecomputePlan& one : plan.recompute) {
    json["recompute"].push_back({{"recompute", RecomputeName(one.recompute)},
                                 {"activation_bytes", one.activation_bytes},
                                 {"worker_bytes", one.worker_bytes},
                                 {"device_bytes", one.device_bytes}});
  }
  for (const PipelineStagePlan& one : plan.pipeline) {
    nlohmann::ordered_json chunks = nlohmann::ordered_json::array();
    for (const UnitRange& units : one.chunks) {
      chunks.push_back({{"first_layer", units.first}, {"end_layer", units.end}});
    }
    json["pipeline"].push_back({{"chunks", chunks},
                                {"worker_own_bytes", one.memory.worker_own_bytes()},
                                {"worker_parts", PartsJson(one.memory.worker)}});
  }
  for (const StagePlan& one : plan.stages) {
    json["zero"].push_back({{"stage", one.stage},
                            {"worker_bytes", one.worker_bytes},
                            {"device_bytes", one.device_bytes},
                            {"state_bytes", one.state_bytes},
                            {"state_bytes_per_parameter", one.state_bytes_per_parameter},
                            {"published_bytes_per_parameter", one.published_bytes_per_parameter}});
  }
  for (const RoadTraffic& road : plan.traffic) {
    json["traffic_per_step_and_worker"].push_back({{"road", RoadName(plan, road.all_reduce)},
                                                   {"dense_bytes_sent", road.sent},
                                                   {"dense_bytes_received", road.received},
                                                   {"row_bytes_sent", road.rows_sent},
                                                   {"row_bytes_received", road.rows_received}});
    nlohmann::ordered_json& added = json["traffic_per_step_and_worker"].back();
    if (road.all_reduce) added["over"] = OnDevices(plan) ? "devices" : "shared_memory";
    if (!DividesTensors(plan) && plan.pipeline.empty()) continue;
    for (const AxisTraffic& stage : road.stages) added["stages"].push_back(AxesJson(stage));
  }
  return DumpJson(json, 2);
}

}  // namespace muster

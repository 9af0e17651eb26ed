#include "client/plan/tensor_list.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/terminal/format.h"
#include "common/text/dump_json.h"

namespace muster {
namespace {

std::string HowTrained(const TensorSpec& tensor) {
  if (!tensor.tied_to.empty()) return absl::StrCat("is ", tensor.tied_to);
  if (tensor.frozen) return "frozen";
  if (tensor.sign_rate > 0) return absl::StrCat("by signs, steps of ", tensor.sign_rate);
  std::string how = "trained";
  if (tensor.rate != 1) absl::StrAppend(&how, ", rate x ", tensor.rate);
  if (tensor.own_weight_decay.has_value()) {
    absl::StrAppend(&how, ", weight decay ", *tensor.own_weight_decay);
  } else if (!tensor.weight_decay) {
    absl::StrAppend(&how, ", no weight decay");
  }
  return how;
}

std::string ShapeOf(const TensorSpec& tensor) {
  return absl::StrCat("[", absl::StrJoin(tensor.shape, ", "), "]");
}

}  // namespace

std::string TensorsText(const JobPlan& plan) {
  std::vector<std::vector<std::string>> rows = {{"TENSOR", "SHAPE", "UNIT", ""}};
  for (const TensorSpec& tensor : plan.model.tensors) {
    rows.push_back({tensor.name, ShapeOf(tensor), absl::StrCat(tensor.unit), HowTrained(tensor)});
  }
  return FormatTable(rows);
}

std::string TensorsJson(const JobPlan& plan) {
  auto json = nlohmann::ordered_json::array();
  for (const TensorSpec& tensor : plan.model.tensors) {
    json.push_back({{"name", tensor.name},
                    {"shape", tensor.shape},
                    {"unit", tensor.unit},
                    {"tied_to", tensor.tied_to},
                    {"frozen", tensor.frozen},
                    {"rate", tensor.rate}});
    if (tensor.own_weight_decay.has_value()) {
      json.back()["weight_decay"] = *tensor.own_weight_decay;
    }
  }
  return DumpJson(json, 2);
}

}  // namespace muster

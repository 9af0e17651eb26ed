#include "tests/benchmarks/train_daemons.h"

#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/compare/measured_run.h"
#include "common/base/philox.h"
#include "common/base/status_macros.h"
#include "tests/benchmarks/train_case.h"

namespace muster {
namespace {

constexpr int64_t kTextBytes = 4 << 20;

const TrainCase* Find(const std::vector<TrainCase>& cases, const std::string& name,
                      const std::string& type) {
  for (const TrainCase& one : cases) {
    if (one.name == name && one.type == type) return &one;
  }
  return nullptr;
}

void SetJob(const TrainCase& from, uint64_t steps, DaemonCase& to) {
  to.model = from.name;
  to.type = from.type;
  to.unit = from.unit;
  to.items_per_example = static_cast<double>(from.items) / from.spec.batch_size();
  to.spec = from.spec;
  to.spec.set_name(to.name);
  to.spec.set_workers(static_cast<uint32_t>(to.workers));
  to.spec.set_seed(1);
  to.spec.mutable_stop()->set_steps(steps);
  if (to.spec.update().durability() == v1::UpdateSpec::DURABILITY_UNSPECIFIED) {
    to.spec.mutable_update()->set_durability(v1::UpdateSpec::CHECKPOINT);
  }
}

}  // namespace

absl::Status WriteBenchText(const std::string& path) {
  const Philox random(1, "bench", "text");
  std::string text(kTextBytes, ' ');
  for (int64_t i = 0; i < kTextBytes; ++i) text[i] = static_cast<char>('a' + random.Below(26, i));
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (file) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("cannot write ", path, "; set TMPDIR to a folder with ", kTextBytes, " bytes"));
}

std::vector<DaemonCase> DaemonCases(const std::string& text, DaemonSteps steps) {
  const bool quick = steps == DaemonSteps::kQuick;
  const std::vector<TrainCase> all = TrainCases();
  std::vector<DaemonCase> cases;
  for (const std::string type : {"f32", "bf16"}) {
    for (const auto road : {Road::Kind::kBsp, Road::Kind::kAllReduce}) {
      const bool on_servers = road == Road::Kind::kBsp;
      DaemonCase one;
      one.name = absl::StrCat("gpt-10m ", type, on_servers ? " by servers" : " by all-reduce");
      one.road = road;
      one.servers = on_servers ? 1 : 0;
      one.workers = 2;
      SetJob(*Find(all, "gpt-10m", type), quick ? 8 : 32, one);
      one.spec.mutable_data()->mutable_sequences()->set_path(text);
      cases.push_back(std::move(one));
    }
  }
  DaemonCase clicks;
  clicks.name = "deep-fm by servers";
  clicks.servers = 1;
  SetJob(*Find(all, "deep-fm", "f32"), quick ? 60 : 160, clicks);
  clicks.spec.set_threads_per_worker(2);
  v1::SyntheticClicksData& data = *clicks.spec.mutable_data()->mutable_synthetic_clicks();
  data.set_examples(uint64_t{1} << 30);
  data.set_fields(26);
  data.set_cardinality(1000000);
  data.set_seed(1);
  cases.push_back(std::move(clicks));
  return cases;
}

DaemonFigures MeanOf(const std::vector<DaemonFigures>& turns) {
  DaemonFigures mean;
  const double count = static_cast<double>(turns.size());
  double seconds_per_item = 0;
  for (const DaemonFigures& turn : turns) {
    seconds_per_item += 1 / turn.items_per_second / count;
    mean.compute += turn.compute / count;
    mean.communication += turn.communication / count;
    mean.waiting += turn.waiting / count;
    mean.processor_seconds_per_1000 += turn.processor_seconds_per_1000 / count;
  }
  mean.items_per_second = 1 / seconds_per_item;
  return mean;
}

absl::StatusOr<DaemonFigures> MeasureThroughDaemons(const DaemonCase& one) {
  MeasureOptions options;
  options.servers = one.servers;
  options.warmup_steps = one.spec.stop().steps() / 4;
  const Road road = {one.road, one.name};
  MUSTER_ASSIGN_OR_RETURN(const MeasuredRun run,
                          MeasureRun(OnRoad(one.spec, road, 0), road, options));
  DaemonFigures figures;
  figures.items_per_second = run.examples_per_second * one.items_per_example;
  figures.compute = run.compute_seconds;
  figures.communication = run.communication_seconds;
  figures.waiting = run.waiting_seconds;
  const double items =
      static_cast<double>(run.steps) * one.spec.batch_size() * one.items_per_example;
  figures.processor_seconds_per_1000 =
      1000 * (run.worker_cpu_seconds + run.server_cpu_seconds) / items;
  return figures;
}

}  // namespace muster

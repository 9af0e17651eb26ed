#include "tests/benchmarks/collectives/collectives_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace muster {
namespace {

double BusFactor(int world) { return 2.0 * (world - 1) / world; }

// 1e9 bytes a second are 1e3 bytes a microsecond.
double GigabytesPerSecond(int64_t bytes, double microseconds) { return bytes / microseconds / 1e3; }

std::string SizeName(int64_t bytes) {
  return bytes < (1 << 20) ? absl::StrCat(bytes >> 10, " KiB") : absl::StrCat(bytes >> 20, " MiB");
}

std::string Label(const CollectivesRow& row) {
  return absl::StrCat(row.system, " ", row.transport,
                      row.memory == "communicator" ? ", buffers" : "");
}

}  // namespace

std::vector<BenchRecord> CollectivesRecords(const CollectivesRow& row) {
  std::vector<BenchRecord> records;
  for (const auto& [bytes, microseconds] : row.microseconds) {
    BenchRecord latency;
    latency.bench = "collectives";
    latency.parameters = {{"operation", std::string("all-reduce")},
                          {"world", int64_t{row.world}},
                          {"payload_bytes", bytes},
                          {"transport", row.transport},
                          {"memory", row.memory}};
    latency.system = row.system;
    latency.metric = "latency";
    latency.unit = "us";
    latency.samples = microseconds;
    BenchRecord algorithm = latency;
    algorithm.metric = "algorithm bandwidth";
    algorithm.unit = "GB/s";
    for (double& sample : algorithm.samples) sample = GigabytesPerSecond(bytes, sample);
    BenchRecord bus = algorithm;
    bus.metric = "bus bandwidth";
    for (double& sample : bus.samples) sample *= BusFactor(row.world);
    records.push_back(std::move(latency));
    records.push_back(std::move(algorithm));
    records.push_back(std::move(bus));
    const auto found = row.costs.find(bytes);
    if (found == row.costs.end()) continue;
    BenchRecord processor = records[records.size() - 3];
    processor.metric = "processor time";
    processor.samples = {found->second.processor_us};
    BenchRecord switches = processor;
    switches.metric = "context switches";
    switches.unit = "per call";
    switches.samples = {found->second.switches};
    records.push_back(std::move(processor));
    records.push_back(std::move(switches));
  }
  return records;
}

std::map<int64_t, double> TimesAsFast(const CollectivesRow& row,
                                      const std::vector<CollectivesRow>& others) {
  std::map<int64_t, double> ratios;
  for (const auto& [bytes, microseconds] : row.microseconds) {
    double best = 0;
    for (const CollectivesRow& other : others) {
      const auto found = other.microseconds.find(bytes);
      if (found == other.microseconds.end()) continue;
      const double median = Median(found->second);
      best = best == 0 ? median : std::min(best, median);
    }
    if (best > 0) ratios[bytes] = best / Median(microseconds);
  }
  return ratios;
}

CollectivesTable::CollectivesTable(std::vector<CollectivesCase> cases, std::ostream& out)
    : cases_(std::move(cases)), out_(out) {}

void CollectivesTable::PrintHead(const std::string& title) {
  out_ << "\n" << absl::StreamFormat("%-31s", title);
  for (const CollectivesCase& one : cases_) {
    if (ShowsLatency(one.bytes)) out_ << absl::StreamFormat("%9s", SizeName(one.bytes));
  }
  for (const CollectivesCase& one : cases_) {
    if (ShowsBandwidth(one.bytes)) out_ << absl::StreamFormat("%14s", SizeName(one.bytes));
  }
  out_ << "\n" << absl::StreamFormat("%-31s", "");
  for (const CollectivesCase& one : cases_) {
    if (ShowsLatency(one.bytes)) out_ << absl::StreamFormat("%9s", "us");
  }
  for (const CollectivesCase& one : cases_) {
    if (ShowsBandwidth(one.bytes)) out_ << absl::StreamFormat("%14s", "GB/s");
  }
  out_ << std::endl;
}

void CollectivesTable::PrintRow(const CollectivesRow& row) {
  out_ << absl::StreamFormat("%-31s", Label(row));
  for (const auto& [bytes, microseconds] : row.microseconds) {
    if (ShowsLatency(bytes)) out_ << absl::StreamFormat("%9.1f", Median(microseconds));
  }
  for (const auto& [bytes, microseconds] : row.microseconds) {
    if (!ShowsBandwidth(bytes)) continue;
    const double algorithm = GigabytesPerSecond(bytes, Median(microseconds));
    out_ << absl::StreamFormat("%7.2f /%5.2f", algorithm, algorithm * BusFactor(row.world));
  }
  out_ << std::endl;
}

void CollectivesTable::PrintLimit(const std::string& name,
                                  const std::map<int64_t, double>& microseconds,
                                  const std::map<int64_t, double>& gigabytes_per_second) {
  out_ << absl::StreamFormat("%-31s", name);
  for (const auto& [bytes, value] : microseconds) out_ << absl::StreamFormat("%9.1f", value);
  for (const auto& [bytes, value] : gigabytes_per_second) {
    out_ << absl::StreamFormat("%7.2f       ", value);
  }
  out_ << std::endl;
}

void CollectivesTable::PrintCosts(const CollectivesRow& row) {
  if (row.costs.empty()) return;
  out_ << absl::StreamFormat("%-31s", Label(row));
  for (const auto& [bytes, cost] : row.costs) {
    out_ << absl::StreamFormat("  %s: %.3g us, %.1f", SizeName(bytes), cost.processor_us,
                               cost.switches);
  }
  out_ << std::endl;
}

void CollectivesTable::PrintRatios(const std::string& name,
                                   const std::map<int64_t, double>& ratios) {
  if (ratios.empty()) return;
  out_ << absl::StreamFormat("%-31s", name);
  for (const auto& [bytes, ratio] : ratios) {
    if (ShowsLatency(bytes)) out_ << absl::StreamFormat("%8.2fx", ratio);
  }
  for (const auto& [bytes, ratio] : ratios) {
    if (ShowsBandwidth(bytes)) out_ << absl::StreamFormat("%7.2fx      ", ratio);
  }
  out_ << std::endl;
}

}  // namespace muster

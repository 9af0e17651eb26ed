#include "tests/benchmarks/harness/record.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/files/output_file.h"

namespace muster {

double Median(std::vector<double> samples) {
  const size_t middle = samples.size() / 2;
  std::nth_element(samples.begin(), samples.begin() + middle, samples.end());
  const double upper = samples[middle];
  if (samples.size() % 2 == 1) return upper;
  return (*std::max_element(samples.begin(), samples.begin() + middle) + upper) / 2;
}

std::string RecordsJson(const std::vector<BenchRecord>& records) {
  nlohmann::ordered_json array = nlohmann::ordered_json::array();
  for (const BenchRecord& record : records) {
    nlohmann::ordered_json parameters = nlohmann::ordered_json::object();
    for (const auto& [name, value] : record.parameters) {
      std::visit([&, key = name](const auto& v) { parameters[key] = v; }, value);
    }
    const auto [min, max] = std::minmax_element(record.samples.begin(), record.samples.end());
    array.push_back({{"bench", record.bench},
                     {"case", parameters},
                     {"system", record.system},
                     {"metric", record.metric},
                     {"unit", record.unit},
                     {"median", Median(record.samples)},
                     {"min", *min},
                     {"max", *max},
                     {"n", record.samples.size()}});
  }
  return array.dump(2);
}

absl::Status WriteRecords(const std::string& path, const std::vector<BenchRecord>& records) {
  return WriteOutputFile(path, Replace::kFiles, absl::StrCat(RecordsJson(records), "\n"));
}

}  // namespace muster

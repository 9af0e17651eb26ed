#include "tests/golden/golden_record.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/fingerprint.h"

namespace muster {
namespace {

constexpr int64_t kSamples = 4;

uint32_t Bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

float FromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

bool SameBits(double a, double b) { return std::memcmp(&a, &b, sizeof(a)) == 0; }

bool operator==(const GoldenValues& a, const GoldenValues& b) {
  return a.fingerprint == b.fingerprint;
}

// Floats in between, plus one; large where signs differ.
int64_t UlpsApart(float a, float b) {
  const auto place = [](float value) {
    const uint32_t bits = Bits(value);
    return (bits >> 31) != 0 ? -static_cast<int64_t>(bits & 0x7fffffff)
                             : static_cast<int64_t>(bits);
  };
  return std::abs(place(a) - place(b));
}

// "3 of 4 kept samples differ, by at most 2 ulp; the worst is now 0.5, was 0.25".
std::string DescribeSamples(const GoldenValues& actual, const GoldenValues& expected) {
  if (actual.samples.size() != expected.samples.size()) return "the number of values changed";
  size_t differ = 0, worst = 0;
  int64_t worst_ulps = -1;
  for (size_t i = 0; i < expected.samples.size(); ++i) {
    if (Bits(actual.samples[i]) == Bits(expected.samples[i])) continue;
    ++differ;
    const int64_t ulps = UlpsApart(actual.samples[i], expected.samples[i]);
    if (ulps > worst_ulps) {
      worst_ulps = ulps;
      worst = i;
    }
  }
  if (differ == 0) {
    return absl::StrFormat("none of %d kept samples differs", expected.samples.size());
  }
  return absl::StrFormat("%d of %d kept samples differ, by at most %d ulp: %.9g, was %.9g", differ,
                         expected.samples.size(), worst_ulps, actual.samples[worst],
                         expected.samples[worst]);
}

std::string DescribeLoss(absl::string_view what, double actual, double expected) {
  return absl::StrFormat("%s: loss %.17g, was %.17g (relative difference %.2g)", what, actual,
                         expected, std::abs(actual - expected) / std::abs(expected));
}

std::string FormatValues(const GoldenValues& values) {
  std::string text = absl::StrFormat("%016x", values.fingerprint);
  for (const float sample : values.samples) absl::StrAppendFormat(&text, " %08x", Bits(sample));
  return text;
}

// The words of a line, taken from the front.
class Words {
 public:
  explicit Words(absl::string_view line) : words_(absl::StrSplit(line, ' ')) {}

  bool ok() const { return ok_; }
  bool done() const { return next_ == words_.size(); }
  absl::string_view Next() {
    if (done()) {
      ok_ = false;
      return "";
    }
    return words_[next_++];
  }
  bool Skip(absl::string_view word) {
    if (done() || words_[next_] != word) return false;
    ++next_;
    return true;
  }
  void Expect(absl::string_view word) { ok_ = Next() == word && ok_; }
  template <typename T>
  T Number() {
    T value = 0;
    ok_ = absl::SimpleAtoi(Next(), &value) && ok_;
    return value;
  }
  template <typename T>
  T Hex() {
    T value = 0;
    ok_ = absl::SimpleHexAtoi(Next(), &value) && ok_;
    return value;
  }
  double Float() {
    const std::string word(Next());
    char* end = nullptr;
    const double value = std::strtod(word.c_str(), &end);
    ok_ = ok_ && !word.empty() && *end == '\0';
    return value;
  }
  template <typename T>
  std::vector<T> List() {
    std::vector<T> values;
    for (const absl::string_view part : absl::StrSplit(Next(), ',', absl::SkipEmpty())) {
      T value = 0;
      ok_ = absl::SimpleAtoi(part, &value) && ok_;
      values.push_back(value);
    }
    return values;
  }
  // Up to "gradient" or the end.
  GoldenValues Values() {
    GoldenValues values;
    values.fingerprint = Hex<uint64_t>();
    while (!done() && words_[next_] != "gradient") {
      values.samples.push_back(FromBits(Hex<uint32_t>()));
    }
    return values;
  }

 private:
  const std::vector<absl::string_view> words_;
  size_t next_ = 0;
  bool ok_ = true;
};

void ParseLine(Words& words, GoldenRecord& record) {
  if (words.Skip("step")) {
    GoldenStep step;
    step.step = words.Number<uint64_t>();
    words.Expect("slot");
    step.slot = words.Number<uint32_t>();
    words.Expect("loss");
    step.loss_sum = words.Float();
    words.Expect("gradients");
    while (!words.done()) step.gradients.push_back(words.Hex<uint32_t>());
    record.steps.push_back(std::move(step));
  } else if (words.Skip("tensor")) {
    GoldenTensor tensor;
    tensor.name = std::string(words.Next());
    tensor.shape = words.List<int64_t>();
    tensor.trained = words.Values();
    if (words.Skip("gradient")) tensor.first_gradient = words.Values();
    record.tensors.push_back(std::move(tensor));
  } else if (words.Skip("evaluation")) {
    const uint64_t clock = words.Number<uint64_t>();
    words.Expect("loss");
    record.evaluations[clock] = words.Float();
  } else {
    words.Expect("generated");
    record.generated = words.List<int32_t>();
    words.Expect("logits");
    record.logits = words.Values();
  }
}

void DescribeStep(const GoldenStep& actual, const GoldenStep& expected, const GoldenRecord& record,
                  const GoldenRecord& golden, std::vector<std::string>& differences) {
  const std::string at = absl::StrCat("step ", expected.step, ", slot ", expected.slot);
  if (!SameBits(actual.loss_sum, expected.loss_sum)) {
    differences.push_back(DescribeLoss(at, actual.loss_sum, expected.loss_sum));
  }
  // Backward comes to the last tensor first.
  for (size_t i = expected.gradients.size(); i-- > 0;) {
    if (actual.gradients[i] == expected.gradients[i]) continue;
    std::string line = absl::StrCat(at, ": the gradient of ", golden.tensors[i].name, " [",
                                    absl::StrJoin(golden.tensors[i].shape, ", "), "]");
    if (expected.step == 1 && expected.slot == 0) {
      absl::StrAppend(
          &line, ": ",
          DescribeSamples(record.tensors[i].first_gradient, golden.tensors[i].first_gradient));
    }
    differences.push_back(std::move(line));
  }
}

// Empty where steps and tensors are the same ones.
std::string DescribeOtherJob(const GoldenRecord& actual, const GoldenRecord& expected) {
  const auto things = [](const GoldenRecord& record) {
    std::vector<std::string> all;
    for (const GoldenStep& step : record.steps) {
      all.push_back(absl::StrCat("step ", step.step, " of slot ", step.slot, " with ",
                                 step.gradients.size(), " gradients"));
    }
    for (const GoldenTensor& tensor : record.tensors) {
      all.push_back(absl::StrCat(tensor.name, " [", absl::StrJoin(tensor.shape, ", "), "]"));
    }
    return all;
  };
  const std::vector<std::string> a = things(actual), e = things(expected);
  for (size_t i = 0; i < std::max(a.size(), e.size()); ++i) {
    const std::string now = i < a.size() ? a[i] : "nothing", was = i < e.size() ? e[i] : "nothing";
    if (now != was) return absl::StrCat("another job than was recorded: ", now, ", was ", was);
  }
  return "";
}

}  // namespace

GoldenValues GoldenValues::Of(absl::Span<const float> values) {
  GoldenValues golden;
  golden.fingerprint = Fingerprint(absl::string_view(reinterpret_cast<const char*>(values.data()),
                                                     values.size() * sizeof(float)));
  const auto n = static_cast<int64_t>(values.size());
  const int64_t count = std::min(kSamples, n);
  for (int64_t i = 0; i < count; ++i) {
    golden.samples.push_back(values[count == 1 ? 0 : i * (n - 1) / (count - 1)]);
  }
  return golden;
}

std::string FormatGoldenRecord(const GoldenRecord& record) {
  std::string text;
  for (const GoldenStep& step : record.steps) {
    absl::StrAppendFormat(&text, "step %d slot %d loss %a gradients", step.step, step.slot,
                          step.loss_sum);
    for (const uint32_t gradient : step.gradients) absl::StrAppendFormat(&text, " %08x", gradient);
    text += '\n';
  }
  for (const GoldenTensor& tensor : record.tensors) {
    absl::StrAppend(&text, "tensor ", tensor.name, " ", absl::StrJoin(tensor.shape, ","), " ",
                    FormatValues(tensor.trained));
    if (!tensor.first_gradient.samples.empty()) {
      absl::StrAppend(&text, " gradient ", FormatValues(tensor.first_gradient));
    }
    text += '\n';
  }
  for (const auto& [clock, loss] : record.evaluations) {
    absl::StrAppendFormat(&text, "evaluation %d loss %a\n", clock, loss);
  }
  if (!record.generated.empty()) {
    absl::StrAppend(&text, "generated ", absl::StrJoin(record.generated, ","), " logits ",
                    FormatValues(record.logits), "\n");
  }
  return text;
}

absl::StatusOr<GoldenRecord> ParseGoldenRecord(absl::string_view text) {
  GoldenRecord record;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    Words words(line);
    ParseLine(words, record);
    if (!words.ok() || !words.done()) {
      return absl::InvalidArgumentError(absl::StrCat("no line of a golden record: ", line));
    }
  }
  return record;
}

std::vector<std::string> DescribeDifferences(const GoldenRecord& actual,
                                             const GoldenRecord& expected) {
  const std::string other = DescribeOtherJob(actual, expected);
  if (!other.empty()) return {other};
  std::vector<std::string> differences;
  for (size_t i = 0; i < expected.steps.size(); ++i) {
    DescribeStep(actual.steps[i], expected.steps[i], actual, expected, differences);
  }
  for (size_t i = 0; i < expected.tensors.size(); ++i) {
    const GoldenTensor &now = actual.tensors[i], &was = expected.tensors[i];
    if (now.trained == was.trained) continue;
    differences.push_back(absl::StrCat("at the end, ", was.name, " [",
                                       absl::StrJoin(was.shape, ", "),
                                       "]: ", DescribeSamples(now.trained, was.trained)));
  }
  for (const auto& [clock, loss] : expected.evaluations) {
    const auto found = actual.evaluations.find(clock);
    if (found == actual.evaluations.end()) {
      differences.push_back(absl::StrCat("no evaluation at clock ", clock));
    } else if (!SameBits(found->second, loss)) {
      differences.push_back(
          DescribeLoss(absl::StrCat("evaluation at clock ", clock), found->second, loss));
    }
  }
  if (actual.generated != expected.generated) {
    differences.push_back(absl::StrCat("generated tokens ", absl::StrJoin(actual.generated, ","),
                                       ", were ", absl::StrJoin(expected.generated, ",")));
  } else if (!(actual.logits == expected.logits)) {
    differences.push_back(
        absl::StrCat("logits of generation: ", DescribeSamples(actual.logits, expected.logits)));
  }
  return differences;
}

}  // namespace muster

#include "worker/generate/compare_models.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/philox.h"
#include "common/base/status_macros.h"
#include "common/tensor/half.h"
#include "common/text/printable.h"
#include "proto/job.pb.h"
#include "worker/generate/loaded_transformer.h"

namespace muster {
namespace {

// Lengths of the sequences, or less where the context is shorter.
constexpr int64_t kLengths[] = {1, 7, 32, 65};

constexpr absl::string_view kTexts[] = {
    "",
    " ",
    "\n",
    "a",
    "Hello, world!",
    "hello  world   with    spaces",
    "\t\ttabs\tand\r\nline ends\n\n\n",
    " leading and trailing ",
    "don't can't we'll I'M HE'S they'D",
    "CamelCase snake_case kebab-case SCREAMING_CASE",
    "3.14159 1,000,000 0x1F 1e-9 2026-11-30",
    "0123456789012345678901234567890123456789",
    "int main() { return x[i] += *p++ << 2; }  // why?",
    "def f(x: int = 3) -> str:\n    return f\"{x!r}\"\n",
    "{\"key\": [1, null, true], \"a\\\"b\": \"\\u00e9\"}",
    "<p class=\"x\">A &amp; B</p>",
    "https://example.org/a/b?c=d&e=%20#f",
    "The quick brown fox jumps over the lazy dog.",
    "supercalifragilisticexpialidocious",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "!!!???...---===///\\\\\\",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich",
    "Ça a été là où l'œuvre naît, à Noël",
    "e\u0301 and \u00e9 are alike; n\u0303 too",
    "Любя, съешь щипцы, — вздохнёт мэр, — кайф жгуч",
    "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία",
    "نص حكيم له سر قاطع وذو شأن عظيم",
    "דג סקרן שט בים מאוכזב",
    "ऋषियों को सताने वाले दुष्ट राक्षसों के राजा",
    "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า",
    "いろはにほへと ちりぬるを",
    "視野無限廣,窗外有藍天",
    "키스의 고유조건은 입술끼리 만나야 하고",
    "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇩🇪",
    "½ ² ⅷ Ⅻ ﬁ ﬀ Å",
    "∀x∈ℝ: ⌈x⌉ = −⌊−x⌋, ∑ 1/n² = π²/6",
    "zero\u200bwidth, no\u00a0break, soft\u00adhyphen, \ufeffmark",
    "<|endoftext|> </s> <|im_start|>user\nHi<|im_end|>",
    "[INST] <<SYS>> be brief <</SYS>> why? [/INST]",
    "\x01\x02\x7f control \x1b[31mred\x1b[0m",
};
static_assert(std::size(kTexts) == 40);

// Weights as a type holds them.
class RoundedWeights final : public Weights {
 public:
  RoundedWeights(const Weights& weights, DType type) : weights_(weights), type_(type) {}

  const v1::TransformerSpec& spec() const override { return weights_.spec(); }
  const std::vector<MusterTensor>& tensors() const override { return weights_.tensors(); }
  absl::Status Read(const std::string& tensor, std::vector<float>& values) const override {
    MUSTER_RETURN_IF_ERROR(weights_.Read(tensor, values));
    if (type_ == DType::kF32) return absl::OkStatus();
    std::vector<uint16_t> bits(values.size());
    RoundToHalf(type_, values, bits.data());
    WidenHalf(type_, reinterpret_cast<const std::byte*>(bits.data()), absl::MakeSpan(values));
    return absl::OkStatus();
  }

 private:
  const Weights& weights_;
  const DType type_;
};

absl::Status CompareTokens(const StoredModel& written, const StoredModel& original) {
  if (written.tokenizer == nullptr || original.tokenizer == nullptr) {
    if (written.tokenizer == original.tokenizer) return absl::OkStatus();
    const bool lost = written.tokenizer == nullptr;
    return absl::DataLossError(absl::StrCat(lost ? written.name : original.name,
                                            " has no tokenizer, but ",
                                            lost ? original.name : written.name, " has one"));
  }
  for (const absl::string_view text : kTexts) {
    const std::vector<int32_t> tokens = EncodeAll(*written.tokenizer, text);
    const std::vector<int32_t> expected = EncodeAll(*original.tokenizer, text);
    if (tokens == expected) continue;
    const auto first =
        std::mismatch(tokens.begin(), tokens.end(), expected.begin(), expected.end());
    const auto at = [](auto it, const std::vector<int32_t>& of) {
      return it == of.end() ? std::string("no token") : absl::StrCat(*it);
    };
    return absl::DataLossError(
        absl::StrCat("the text \"", PrintableLine(text), "\" has other tokens: number ",
                     first.first - tokens.begin() + 1, " is ", at(first.first, tokens), " with ",
                     written.name, ", ", at(first.second, expected), " with ", original.name));
  }
  return absl::OkStatus();
}

// Returns the logits after each of the sequences.
absl::StatusOr<std::vector<std::vector<float>>> LogitsOf(const Weights& weights) {
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<LoadedTransformer> model,
                          LoadedTransformer::Create(weights));
  const Philox random(0, "compare", "");
  std::vector<std::vector<float>> logits;
  uint64_t draw = 0;
  for (const int64_t length : kLengths) {
    std::vector<int32_t> tokens(std::min(length, model->context()));
    for (int32_t& token : tokens) {
      token = static_cast<int32_t>(random.Uint64(draw++) % weights.spec().vocabulary());
    }
    model->Forget();
    MUSTER_ASSIGN_OR_RETURN(const absl::Span<const float> last, model->Take(tokens));
    logits.emplace_back(last.begin(), last.end());
  }
  return logits;
}

bool Equal(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

}  // namespace

absl::Span<const absl::string_view> ComparedTexts() { return kTexts; }

absl::Status CompareModels(const StoredModel& written, const StoredModel& original, DType type) {
  MUSTER_RETURN_IF_ERROR(CompareTokens(written, original));
  MUSTER_ASSIGN_OR_RETURN(const std::vector<std::vector<float>> logits, LogitsOf(*written.weights));
  MUSTER_ASSIGN_OR_RETURN(const std::vector<std::vector<float>> expected,
                          LogitsOf(RoundedWeights(*original.weights, type)));
  for (size_t i = 0; i < logits.size(); ++i) {
    // One may have rows of padding, for speed, which no text belongs to.
    const size_t rows = std::min(logits[i].size(), expected[i].size());
    for (size_t row = 0; row < rows; ++row) {
      if (Equal(logits[i][row], expected[i][row])) continue;
      return absl::DataLossError(absl::StrCat(
          "after sequence ", i + 1, " of ", logits.size(), " the logit of token ", row, " is ",
          logits[i][row], " with ", written.name, ", ", expected[i][row], " with ", original.name));
    }
  }
  return absl::OkStatus();
}

}  // namespace muster

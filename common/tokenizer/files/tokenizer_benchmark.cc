// Bytes per second that one thread encodes. Each further argument is a tokenizer, whose text is the
// first one:
//
//   tokenizer_benchmark TEXT TOKENIZER... [--benchmark_format=json]
//
// "whole" encodes the text at once, as from a large file; "lines" line by line, as documents.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "benchmark/benchmark.h"
#include "common/files/file_content.h"
#include "common/tokenizer/files/open_tokenizer.h"
#include "common/tokenizer/tokenizer.h"

namespace muster {
namespace {

void Encode(benchmark::State& state, const Tokenizer& tokenizer,
            const std::vector<absl::string_view>& documents) {
  size_t tokens = 0;
  int64_t bytes = 0;
  for (auto _ : state) {
    for (const absl::string_view document : documents) {
      tokenizer.Encode(document, TextStart::kDocument,
                       [&tokens](absl::Span<const int32_t> some) { tokens += some.size(); });
      bytes += static_cast<int64_t>(document.size());
    }
  }
  benchmark::DoNotOptimize(tokens);
  state.SetBytesProcessed(bytes);
}

int Run(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (argc < 3) {
    std::fprintf(stderr, "usage: tokenizer_benchmark TEXT TOKENIZER...\n");
    return 2;
  }
  const auto text = FileContent::Open(argv[1]);
  if (!text.ok()) {
    std::fprintf(stderr, "%s\n", std::string(text.status().message()).c_str());
    return 1;
  }
  const std::vector<absl::string_view> whole = {text->bytes()};
  const std::vector<absl::string_view> lines = absl::StrSplit(text->bytes(), '\n');
  std::vector<std::unique_ptr<const Tokenizer>> tokenizers;
  for (int i = 2; i < argc; ++i) {
    auto tokenizer = OpenTokenizer(argv[i]);
    if (!tokenizer.ok()) {
      std::fprintf(stderr, "%s\n", std::string(tokenizer.status().message()).c_str());
      return 1;
    }
    tokenizers.push_back(*std::move(tokenizer));
    const Tokenizer& opened = *tokenizers.back();
    for (const auto& [name, documents] :
         {std::make_pair("whole", &whole), std::make_pair("lines", &lines)}) {
      benchmark::RegisterBenchmark(absl::StrCat(argv[i], "/", name).c_str(),
                                   [&opened, documents = documents](benchmark::State& state) {
                                     Encode(state, opened, *documents);
                                   })
          ->Unit(benchmark::kMillisecond);
    }
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) { return muster::Run(argc, argv); }

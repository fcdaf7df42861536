#include "runtime/serve/http/stop_filter.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/rng.h"

namespace orrery::serve {
namespace {

// The slow twin: looks at every end of the whole text.
std::string cut_at_first_stop(const std::string& text, const std::vector<std::string>& stops) {
  for (std::size_t end = 0; end <= text.size(); ++end) {
    std::size_t longest = 0;
    for (const std::string& stop : stops) {
      if (stop.size() <= end && text.compare(end - stop.size(), stop.size(), stop) == 0) {
        longest = std::max(longest, stop.size());
      }
    }
    if (longest > 0) return text.substr(0, end - longest);
  }
  return text;
}

std::int64_t between(RandomStream& random, std::int64_t least, std::int64_t most) {
  return least +
         static_cast<std::int64_t>(random.next_below(static_cast<std::uint64_t>(most - least + 1)));
}

std::string random_text(RandomStream& random, std::int64_t most) {
  std::string text;
  for (std::int64_t left = between(random, 0, most); left > 0; --left) {
    text += static_cast<char>('a' + between(random, 0, 2));
  }
  return text;
}

TEST(StopFilter, pushes_joined_equal_the_text_cut_at_the_first_stop_however_it_was_cut) {
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    RandomStream random(seed);
    std::vector<std::string> stops;
    std::size_t longest = 0;
    for (std::int64_t i = between(random, 0, 3); i > 0; --i) {
      stops.push_back("b" + random_text(random, 3));
      longest = std::max(longest, stops.back().size());
    }
    const std::string text = random_text(random, 24);
    StopFilter filter(stops);
    std::string out;
    for (std::size_t at = 0; at < text.size() && !filter.stopped();) {
      const auto size = static_cast<std::size_t>(between(random, 1, 4));
      out += filter.push(text.substr(at, size));
      at = std::min(at + size, text.size());
      if (!filter.stopped()) {
        ASSERT_LT(at - out.size(), std::max<std::size_t>(longest, 1))
            << "held back too much, seed " << seed;
      }
    }
    out += filter.finish();
    ASSERT_EQ(out, cut_at_first_stop(text, stops)) << "seed " << seed << " text " << text;
  }
}

TEST(StopFilter, without_stop_strings_everything_passes_at_once) {
  StopFilter filter({""});
  EXPECT_EQ(filter.push("abc"), "abc");
  EXPECT_EQ(filter.finish(), "");
  EXPECT_FALSE(filter.stopped());
}

TEST(StopFilter, nothing_comes_out_after_the_stop) {
  StopFilter filter({"END"});
  EXPECT_EQ(filter.push("one E"), "one ");
  EXPECT_EQ(filter.push("ND two"), "");
  EXPECT_TRUE(filter.stopped());
  EXPECT_EQ(filter.push("three"), "");
  EXPECT_EQ(filter.finish(), "");
}

}  // namespace
}  // namespace orrery::serve

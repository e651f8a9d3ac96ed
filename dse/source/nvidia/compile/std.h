// What device code takes from the C++ library, where it takes something: there is none beside NVRTC and clang.
#define DSE_BOTH __host__ __device__ static constexpr
namespace std {
using size_t = decltype(sizeof(0));
using ptrdiff_t = decltype((char*)0 - (char*)0);
using nullptr_t = decltype(nullptr);
template <class T> __host__ __device__ constexpr const T& min(const T& a, const T& b) { return b < a ? b : a; }
template <class T> __host__ __device__ constexpr const T& max(const T& a, const T& b) { return a < b ? b : a; }
#ifndef __CUDACC_RTC__  // which has it
template <class T> struct initializer_list {
    const T* items;
    size_t count;
    __host__ __device__ constexpr size_t size() const { return count; }
    __host__ __device__ constexpr const T* begin() const { return items; }
    __host__ __device__ constexpr const T* end() const { return items + count; }
};
#endif
template <class I> __host__ __device__ constexpr I max_element(I a, I end)
{
    I best = a;
    for (; a != end; ++a) if (*best < *a) best = a;
    return best;
}
template <class I> __host__ __device__ constexpr I min_element(I a, I end)
{
    I best = a;
    for (; a != end; ++a) if (*a < *best) best = a;
    return best;
}
template <class T> __host__ __device__ constexpr T max(initializer_list<T> of) { return *max_element(of.begin(), of.end()); }
template <class T> __host__ __device__ constexpr T min(initializer_list<T> of) { return *min_element(of.begin(), of.end()); }
template <class T> __host__ __device__ constexpr void swap(T& a, T& b) { T c = a; a = b; b = c; }

template <class T, T v> struct integral_constant {
    static constexpr T value = v;
    using type = integral_constant;
    __host__ __device__ constexpr operator T() const { return v; }
};
template <bool v> using bool_constant = integral_constant<bool, v>;
using true_type = bool_constant<true>;
using false_type = bool_constant<false>;

template <class...> using void_t = void;
template <bool, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> { using type = T; };
template <bool, class T, class> struct conditional { using type = T; };
template <class T, class U> struct conditional<false, T, U> { using type = U; };
template <class T> struct remove_reference { using type = T; };
template <class T> struct remove_reference<T&> { using type = T; };
template <class T> struct remove_reference<T&&> { using type = T; };
template <class T> struct remove_cv { using type = T; };
template <class T> struct remove_cv<const T> { using type = T; };
template <class T> struct remove_cv<volatile T> { using type = T; };
template <class T> struct remove_cv<const volatile T> { using type = T; };
template <class T> struct remove_const { using type = T; };
template <class T> struct remove_const<const T> { using type = T; };
template <class T> struct remove_pointer { using type = T; };
template <class T> struct remove_pointer<T*> { using type = T; };
template <bool b, class T = void> using enable_if_t = typename enable_if<b, T>::type;
template <bool b, class T, class U> using conditional_t = typename conditional<b, T, U>::type;
template <class T> using remove_reference_t = typename remove_reference<T>::type;
template <class T> using remove_cv_t = typename remove_cv<T>::type;
template <class T> using remove_const_t = typename remove_const<T>::type;
template <class T> using remove_pointer_t = typename remove_pointer<T>::type;
template <class T> struct remove_cvref { using type = remove_cv_t<remove_reference_t<T>>; };
template <class T> using remove_cvref_t = typename remove_cvref<T>::type;
template <class T> struct decay { using type = remove_cvref_t<T>; };
template <class T> using decay_t = typename decay<T>::type;

#ifndef __CUDACC_RTC__  // which has these
template <class T> __host__ __device__ constexpr remove_reference_t<T>&& move(T&& t) noexcept
{
    return static_cast<remove_reference_t<T>&&>(t);
}
template <class T> __host__ __device__ constexpr T&& forward(remove_reference_t<T>& t) noexcept
{
    return static_cast<T&&>(t);
}
#endif
template <class T, class U> struct pair {
    T first;
    U second;
};
template <class T, size_t N> struct array {
    T items[N ? N : 1];
    __host__ __device__ constexpr T& operator[](size_t i) { return items[i]; }
    __host__ __device__ constexpr const T& operator[](size_t i) const { return items[i]; }
    __host__ __device__ constexpr T* data() { return items; }
    __host__ __device__ constexpr const T* data() const { return items; }
    __host__ __device__ constexpr T* begin() { return items; }
    __host__ __device__ constexpr const T* begin() const { return items; }
    __host__ __device__ constexpr T* end() { return items + N; }
    __host__ __device__ constexpr const T* end() const { return items + N; }
    __host__ __device__ constexpr void fill(const T& t) { for (T& item : *this) item = t; }
    DSE_BOTH size_t size() { return N; }
};
template <class T, T... I> struct integer_sequence {};
template <size_t... I> using index_sequence = integer_sequence<size_t, I...>;
template <size_t N, size_t... I> struct dse_indices : dse_indices<N - 1, N - 1, I...> {};
template <size_t... I> struct dse_indices<0, I...> { using type = index_sequence<I...>; };
template <size_t N> using make_index_sequence = typename dse_indices<N>::type;

template <class T> struct numeric_limits {
    static constexpr bool is_specialized = false, is_integer = false, is_signed = false;
};
template <class T> struct numeric_limits<const T> : numeric_limits<T> {};
template <class T> struct dse_whole {
    static constexpr bool is_specialized = true, is_integer = true, is_signed = T(-1) < T(0), has_infinity = false;
    static constexpr int digits = 8 * sizeof(T) - is_signed;
    DSE_BOTH T max() { return T((((T(1) << (digits - 1)) - 1) << 1) + 1); }
    DSE_BOTH T min() { return is_signed ? T(-max() - 1) : T(0); }
    DSE_BOTH T lowest() { return min(); }
};
#define DSE_WHOLE(T)                                                                                                   \
    template <> struct numeric_limits<T> : dse_whole<T> {};
DSE_WHOLE(char)
DSE_WHOLE(signed char)
DSE_WHOLE(unsigned char)
DSE_WHOLE(short)
DSE_WHOLE(unsigned short)
DSE_WHOLE(int)
DSE_WHOLE(unsigned int)
DSE_WHOLE(long)
DSE_WHOLE(unsigned long)
DSE_WHOLE(long long)
DSE_WHOLE(unsigned long long)
#define DSE_SIGNS(T, U)                                                                                                \
    template <> struct make_signed<T> { using type = T; };                                                             \
    template <> struct make_signed<U> { using type = T; };                                                             \
    template <> struct make_unsigned<T> { using type = U; };                                                           \
    template <> struct make_unsigned<U> { using type = U; };
template <class T> struct make_signed {};
template <class T> struct make_unsigned {};
DSE_SIGNS(signed char, unsigned char)
DSE_SIGNS(short, unsigned short)
DSE_SIGNS(int, unsigned int)
DSE_SIGNS(long, unsigned long)
DSE_SIGNS(long long, unsigned long long)
template <> struct make_signed<char> : make_signed<signed char> {};
template <> struct make_unsigned<char> : make_unsigned<signed char> {};
template <class T> using make_signed_t = typename make_signed<T>::type;
template <class T> using make_unsigned_t = typename make_unsigned<T>::type;
template <> struct numeric_limits<bool> {
    static constexpr bool is_specialized = true, is_integer = true, is_signed = false, has_infinity = false;
    static constexpr int digits = 1;
    DSE_BOTH bool max() { return true; }
    DSE_BOTH bool min() { return false; }
    DSE_BOTH bool lowest() { return false; }
};
#define DSE_FRACTION(T, bits, least, most, step, of_infinity, of_nan)                                                  \
    template <> struct numeric_limits<T> {                                                                             \
        static constexpr bool is_specialized = true, is_integer = false, is_signed = true, has_infinity = true;        \
        static constexpr int digits = bits;                                                                            \
        DSE_BOTH T max() { return most; }                                                                              \
        DSE_BOTH T min() { return least; }                                                                             \
        DSE_BOTH T lowest() { return -most; }                                                                          \
        DSE_BOTH T epsilon() { return step; }                                                                          \
        DSE_BOTH T infinity() { return __builtin_bit_cast(T, of_infinity); }                                           \
        DSE_BOTH T quiet_NaN() { return __builtin_bit_cast(T, of_nan); }                                               \
    };
DSE_FRACTION(float, 24, 1.17549435e-38f, 3.40282347e+38f, 1.19209290e-7f, 0x7f800000, 0x7fc00000)
DSE_FRACTION(double, 53, 2.2250738585072014e-308, 1.7976931348623157e+308, 2.2204460492503131e-16,
             0x7ff0000000000000, 0x7ff8000000000000)

template <class T, class U> struct is_same : false_type {};
template <class T> struct is_same<T, T> : true_type {};
template <class T> struct is_pointer : false_type {};
template <class T> struct is_pointer<T*> : true_type {};
template <class T> struct is_integral : bool_constant<numeric_limits<remove_cv_t<T>>::is_integer> {};
template <class T> struct is_arithmetic : bool_constant<numeric_limits<remove_cv_t<T>>::is_specialized> {};
template <class T>
struct is_floating_point : bool_constant<is_arithmetic<T>::value && !is_integral<T>::value> {};
template <class T> struct is_signed : bool_constant<numeric_limits<remove_cv_t<T>>::is_signed> {};
template <class T> struct is_unsigned : bool_constant<is_integral<T>::value && !is_signed<T>::value> {};
template <class T, class U> inline constexpr bool is_same_v = is_same<T, U>::value;
template <class T> inline constexpr bool is_pointer_v = is_pointer<T>::value;
template <class T> inline constexpr bool is_integral_v = is_integral<T>::value;
template <class T> inline constexpr bool is_arithmetic_v = is_arithmetic<T>::value;
template <class T> inline constexpr bool is_floating_point_v = is_floating_point<T>::value;
template <class T> inline constexpr bool is_signed_v = is_signed<T>::value;
template <class T> inline constexpr bool is_unsigned_v = is_unsigned<T>::value;
}

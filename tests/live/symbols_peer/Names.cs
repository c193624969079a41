// SPDX-License-Identifier: MIT
// Names and signatures in the way `lunette symbols` writes them, from System.Reflection.Metadata.
using System.Collections.Immutable;
using System.Reflection.Metadata;
using System.Text;

readonly record struct Scope(ImmutableArray<string> Type, ImmutableArray<string> Method);

sealed class Names(MetadataReader md) : ISignatureTypeProvider<string, Scope>
{
    static string Plain(string name)
    {
        int tick = name.LastIndexOf('`');
        return tick >= 0 && tick + 1 < name.Length && name.AsSpan(tick + 1).IndexOfAnyExceptInRange('0', '9') < 0 ? name[..tick] : name;
    }

    string Qualified(StringHandle space, StringHandle name)
    {
        string ns = md.GetString(space);
        return (ns.Length > 0 ? ns + "." : "") + Plain(md.GetString(name));
    }

    string TypeDef(TypeDefinitionHandle handle)
    {
        TypeDefinition type = md.GetTypeDefinition(handle);
        TypeDefinitionHandle outer = type.GetDeclaringType();
        return (outer.IsNil ? "" : TypeDef(outer) + "+") + Qualified(type.Namespace, type.Name);
    }

    string TypeRef(TypeReferenceHandle handle)
    {
        TypeReference type = md.GetTypeReference(handle);
        string outer = type.ResolutionScope.Kind == HandleKind.TypeReference ? TypeRef((TypeReferenceHandle)type.ResolutionScope) + "+" : "";
        return outer + Qualified(type.Namespace, type.Name);
    }

    ImmutableArray<string> Parameters(GenericParameterHandleCollection list) =>
        [.. list.Select(h => md.GetString(md.GetGenericParameter(h).Name))];

    static string Listed(ImmutableArray<string> list) => list.Length == 0 ? "" : "<" + string.Join(", ", list) + ">";

    public (string Name, string Signature) Of(MethodDefinitionHandle handle)
    {
        MethodDefinition method = md.GetMethodDefinition(handle);
        TypeDefinitionHandle owner = method.GetDeclaringType();
        Scope scope = new(Parameters(md.GetTypeDefinition(owner).GetGenericParameters()), Parameters(method.GetGenericParameters()));
        MethodSignature<string> s = method.DecodeSignature(this, scope);
        return (TypeDef(owner) + Listed(scope.Type) + "." + md.GetString(method.Name) + Listed(scope.Method),
                s.ReturnType + " (" + string.Join(", ", s.ParameterTypes) + ")");
    }

    public string GetPrimitiveType(PrimitiveTypeCode code) => code switch
    {
        PrimitiveTypeCode.Boolean => "bool", PrimitiveTypeCode.Byte => "byte", PrimitiveTypeCode.Char => "char",
        PrimitiveTypeCode.Double => "double", PrimitiveTypeCode.Int16 => "short", PrimitiveTypeCode.Int32 => "int",
        PrimitiveTypeCode.Int64 => "long", PrimitiveTypeCode.IntPtr => "nint", PrimitiveTypeCode.Object => "object",
        PrimitiveTypeCode.SByte => "sbyte", PrimitiveTypeCode.Single => "float", PrimitiveTypeCode.String => "string",
        PrimitiveTypeCode.TypedReference => "typedref", PrimitiveTypeCode.UInt16 => "ushort", PrimitiveTypeCode.UInt32 => "uint",
        PrimitiveTypeCode.UInt64 => "ulong", PrimitiveTypeCode.UIntPtr => "nuint", PrimitiveTypeCode.Void => "void",
        _ => "?",
    };
    public string GetTypeFromDefinition(MetadataReader r, TypeDefinitionHandle h, byte kind) => TypeDef(h);
    public string GetTypeFromReference(MetadataReader r, TypeReferenceHandle h, byte kind) => TypeRef(h);
    public string GetTypeFromSpecification(MetadataReader r, Scope scope, TypeSpecificationHandle h, byte kind) =>
        r.GetTypeSpecification(h).DecodeSignature(this, scope);
    public string GetArrayType(string element, ArrayShape shape) => element + "[" + new string(',', shape.Rank - 1) + "]";
    public string GetByReferenceType(string element) => element + "&";
    public string GetFunctionPointerType(MethodSignature<string> s) =>
        "delegate*<" + string.Join(", ", s.ParameterTypes.Append(s.ReturnType)) + ">";
    public string GetGenericInstantiation(string type, ImmutableArray<string> arguments) => type + Listed(arguments);
    public string GetGenericMethodParameter(Scope scope, int index) => index < scope.Method.Length ? scope.Method[index] : "!!" + index;
    public string GetGenericTypeParameter(Scope scope, int index) => index < scope.Type.Length ? scope.Type[index] : "!" + index;
    public string GetModifiedType(string modifier, string type, bool required) => type;
    public string GetPinnedType(string element) => element;
    public string GetPointerType(string element) => element + "*";
    public string GetSZArrayType(string element) => element + "[]";
}
